"""Parts of the trainer that other packages bring: used where they are named, and checked before the run."""

import numpy as np
import pytest
import torch

from sandbox_contract.messages import Message
from sandbox_plugins import PluginGroup
from tests.harness.loss_inputs import inputs
from tests.harness.plugin_packages import API, plugin_packages
from tests.harness.samples import batch, outcomes
from trainer.advantage import credit
from trainer.chat.tool_formats import tool_format
from trainer.config import TrackerSettings, TrackingConfig
from trainer.config.algorithm import AlgorithmConfig
from trainer.config.reading import read_run
from trainer.errors import ConfigError, PluginRejected, TrainerError
from trainer.launch.plugin_check import check_plugins
from trainer.plugins import plugin_object
from trainer.tracking.opening import open_tracker
from trainer.update.objective.policy_losses import POLICY_LOSSES

SOURCE = (
    API
    + """
import numpy as np
import torch
from sandbox_contract.messages import Message
from tests.fakes.wordless_error import WordlessError
from trainer.advantage.algorithms import Credit, by_group
from trainer.update.objective.policy_losses import PolicyLoss

def centred(episodes, *, scale=1.0):
    return by_group(episodes, lambda rewards_G: scale * (rewards_G - rewards_G.mean()))

def short(episodes):
    return []

def infinite(episodes):
    return [Credit(np.full(len(chain.rewards_A), np.inf)) for chain in episodes]

def beyond(episodes):
    return [Credit(np.full(len(chain.rewards_A), 1e200)) for chain in episodes]

def words(episodes):
    return [Credit(np.array(["a"] * len(chain.rewards_A))) for chain in episodes]

def cut_returns(episodes):
    return [Credit(np.zeros_like(chain.rewards_A), np.zeros(1)) for chain in episodes]

def nan_returns(episodes):
    return [Credit(chain.rewards_A, np.full_like(chain.rewards_A, np.nan)) for chain in episodes]

def lists(episodes):
    return [Credit([0.5] * len(chain.rewards_A)) for chain in episodes]

def failing(argument):
    raise KeyError("my_term")

def wordless(argument):
    raise WordlessError

def exhausted(argument):
    raise torch.OutOfMemoryError("no memory")

def unfilled(inputs):
    return PolicyLoss(None, None)

def reinforce(inputs, *, weight=1.0):
    losses_BT = -weight * inputs.advantages_BT * inputs.logprobs_BT
    return PolicyLoss(losses_BT, torch.zeros_like(inputs.mask_BT))

def scalar(inputs):
    return inputs.logprobs_BT.sum()

def brief(trajectory, *, most=100):
    return 1.0

class Shout:
    def parse(self, text, first=0, tools=()):
        return Message(role="assistant", content=text.upper())
    def render(self, message):
        return 7
    def describe_tools(self, tools):
        raise LookupError("no words")

class Mute(Shout):
    def parse(self, text, first=0, tools=()):
        raise WordlessError

class Unmade(Shout):
    def __init__(self):
        raise WordlessError

class Lines:
    def __init__(self, setup, *, ending=".txt"):
        self.file = (setup.folder / setup.name).with_suffix(ending)
    def log(self, step, metrics):
        with self.file.open("a") as file:
            file.write(f"{step} {sorted(metrics)}\\n")
    def close(self):
        pass
"""
)


@pytest.fixture
def packages(tmp_path):
    plugin_object.cache_clear()
    tool_format.cache_clear()
    with plugin_packages(tmp_path) as installed:
        installed.write({"own_parts.py": SOURCE})
        yield installed
    plugin_object.cache_clear()
    tool_format.cache_clear()


def algorithm(**parts) -> AlgorithmConfig:
    return AlgorithmConfig.model_validate(parts)


def test_an_advantage_by_reference_is_used_with_its_options(packages) -> None:
    config = algorithm(advantage={"kind": "own_parts:centred", "options": {"scale": 2}})
    done = credit(batch(*outcomes(0.0, 1.0)), config)
    assert [each.advantages_T.tolist() for each in done.samples] == [[0, -1, -1], [0, 1, 1]]
    assert config.compares_groups


def test_advantages_may_be_lists(packages) -> None:
    done = credit(batch(*outcomes(0.0, 1.0)), algorithm(advantage={"kind": "own_parts:lists"}))
    assert [each.advantages_T.tolist() for each in done.samples] == [[0, 0.5, 0.5]] * 2


@pytest.mark.parametrize("name", ["short", "infinite", "beyond", "words", "cut_returns", "nan_returns"])
def test_advantages_that_do_not_fit_the_episodes_are_an_error(packages, name) -> None:
    with pytest.raises(
        ConfigError, match=f"advantage 'own_parts:{name}': it must return one Credit for each"
    ):
        credit(batch(*outcomes(0.0, 1.0)), algorithm(advantage={"kind": f"own_parts:{name}"}))


def test_an_advantage_that_raises_is_named(packages) -> None:
    with pytest.raises(PluginRejected, match=r"advantage 'own_parts:failing': it raised KeyError: 'my_term'"):
        credit(batch(*outcomes(0.0, 1.0)), algorithm(advantage={"kind": "own_parts:failing"}))


def test_a_loss_that_raises_is_named_except_for_what_the_device_lacks(packages) -> None:
    config = algorithm(loss={"kind": "own_parts:failing"}).loss
    with pytest.raises(PluginRejected, match=r"loss 'own_parts:failing': it raised KeyError: 'my_term'"):
        POLICY_LOSSES[type(config)](inputs([[-1.0, -2.0]]), config)
    with pytest.raises(torch.OutOfMemoryError):
        POLICY_LOSSES[type(config)](
            inputs([[-1.0, -2.0]]), algorithm(loss={"kind": "own_parts:exhausted"}).loss
        )


def test_a_loss_by_reference_is_used_with_its_options(packages) -> None:
    config = algorithm(loss={"kind": "own_parts:reinforce", "options": {"weight": 3.0}}).loss
    found = POLICY_LOSSES[type(config)](inputs([[-1.0, -2.0]]), config)
    assert torch.equal(found.losses_BT, torch.tensor([[3.0, 6.0]]))


@pytest.mark.parametrize("name", ["scalar", "unfilled"])
def test_a_loss_of_another_shape_is_an_error(packages, name) -> None:
    config = algorithm(loss={"kind": f"own_parts:{name}"}).loss
    with pytest.raises(
        ConfigError, match=rf"loss 'own_parts:{name}': it must return a PolicyLoss .*\(1, 2\)"
    ):
        POLICY_LOSSES[type(config)](inputs([[-1.0, -2.0]]), config)


def test_a_tool_format_is_used_and_its_mistakes_name_it(packages) -> None:
    form = tool_format("own_parts:Shout")
    assert form.parse("hello") == Message(role="assistant", content="HELLO")
    with pytest.raises(ConfigError, match="tool format 'own_parts:Shout': render returned int, not str"):
        form.render(Message(role="assistant", content="x"))
    with pytest.raises(ConfigError, match="describe_tools raised LookupError: no words"):
        form.describe_tools([])


def test_an_error_that_fails_to_give_its_message_is_named_by_its_class(packages) -> None:
    for call in (
        lambda: credit(batch(*outcomes(0.0, 1.0)), algorithm(advantage={"kind": "own_parts:wordless"})),
        lambda: tool_format("own_parts:Mute").parse("hello"),
        lambda: tool_format("own_parts:Unmade"),
    ):
        with pytest.raises(PluginRejected, match=r"WordlessError \(its message is unavailable"):
            call()


def test_a_tracker_of_a_package_gets_the_metrics(packages, tmp_path) -> None:
    tracking = TrackingConfig.model_validate(
        {"plugins": [{"kind": "own_parts:Lines", "options": {"ending": ".log"}}]}
    )
    tracker = open_tracker(TrackerSettings("mine", tracking, {"steps": 3}), tmp_path)
    tracker.log(2, {"reward/mean": 0.5})
    tracker.close()
    assert (tmp_path / "mine.log").read_text() == "2 ['reward/mean']\n"


def test_an_entry_point_is_named_as_a_built_in_kind_is(packages) -> None:
    packages.install(
        "parts-pack",
        {"parts_pack.py": SOURCE},
        {
            PluginGroup.ADVANTAGES: {"centred": "parts_pack:centred"},
            PluginGroup.LOSSES: {"reinforce": "parts_pack:reinforce"},
            PluginGroup.REWARDS: {"brief": "parts_pack:brief"},
            PluginGroup.TOOL_FORMATS: {"shout": "parts_pack:Shout"},
            PluginGroup.TRACKERS: {"lines": "parts_pack:Lines"},
        },
    )
    run = read_run(
        None,
        [
            "algorithm.advantage.kind=centred",
            "algorithm.loss={kind='reinforce', options={weight=2.0}}",
            "reward.kind=brief",
            "reward.options.most=9",
            "chat.tool_format=shout",
            "tracking.plugins=[{kind='lines'}]",
        ],
    )
    check_plugins(run)
    assert np.isclose(run.algorithm.loss.options["weight"], 2.0)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["algorithm.loss.kind=gone:loss"], "algorithm.loss: loss 'gone:loss': gone cannot be imported"),
        (["algorithm.loss.kind=own_parts:SOURCE"], "own_parts has no 'SOURCE'"),
        (["reward.kind=own_parts:API"], "reward.kind: reward 'own_parts:API'"),
        (
            ["algorithm.advantage={kind='own_parts:centred', options={scael=2}}"],
            "algorithm.advantage: advantage 'own_parts:centred': it cannot be called with 1 argument and the "
            "options scael: got an unexpected keyword argument 'scael'",
        ),
        (
            ["chat.tool_format=own_parts:brief"],
            "tool format 'own_parts:brief': it is of the type",
        ),
        (["tracking.plugins=[{kind='own_parts:TRAINING_SANDBOX_API'}]"], "of the type int, not a function"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_an_error_before_anything_starts(packages, words, sentence) -> None:
    with pytest.raises(TrainerError) as caught:
        check_plugins(read_run(None, words))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["chat.tool_format=hermis"], "chat.tool_format: 'hermis' is not one of: text, hermes"),
        (["reward.kind=juge"], "reward.kind: 'juge' is not one of: environment, judge; did you mean judge?"),
        (["reward.kind=judge"], "kind=judge needs judge.model"),
        (["reward.kind=judge", "reward.judge.model=m"], "kind=judge needs judge.rubric"),
        (["reward.judge.least=10"], "least must be below most"),
        (["reward.options.most=3"], "options are those of a reward function, and kind=environment is none"),
    ],
)
def test_a_setting_that_names_no_plugin_is_rejected_with_the_names_there_are(words, sentence) -> None:
    with pytest.raises(ConfigError) as caught:
        read_run(None, words)
    assert sentence in str(caught.value)
