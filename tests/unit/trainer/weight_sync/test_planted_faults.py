"""Real models at both ends, the engine's in bfloat16: what goes wrong with weights on their way is found out.

A random model has the spread of logits that a trained one has, so that it has its noise, too. The pretrained
model is SmolLM2-135M-Instruct, where `make smollm` has made it.
"""

import pytest

from tests.fakes.model_engine import HEAD, ModelEngine
from tests.fakes.weight_owner import ModelOwner
from tests.harness.pretrained import SMOLLM2, random_model, smollm2
from trainer.config import RunConfig
from trainer.errors import StaleWeights
from trainer.weight_sync.sync import make_weight_sync

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.timeout(900),  # of the pretrained model, on a busy machine
]

STEP = 1e-4
"""The change of each weight at an update, as with Adam at that learning rate."""
FAR = 1e-3


@pytest.fixture(scope="module", params=["random", pytest.param("smollm2", marks=pytest.mark.slow)])
def model(request, tmp_path_factory):
    """A folder with tied embeddings."""
    return smollm2() if request.param == "smollm2" else random_model(tmp_path_factory.mktemp("model"))


class World:
    """A run whose engine has taken the weights of one weight sync in good health."""

    def __init__(self, model, folder):
        self.engine = ModelEngine(model)
        self.owner = ModelOwner(model)
        run = RunConfig.model_validate(
            {
                "root": folder,
                "engine": {"device": "cpu", "dtype": "bfloat16"},
                "sync": {"folder": folder, "timeout_s": 60},
            }
        )
        self.weight_sync = make_weight_sync(run.sync_settings, [self.engine], self.owner, 0)
        self.version = 0
        self.first = self.sync_weights()

    def sync_weights(self):
        self.version += 1
        return self.weight_sync.report(self.version).agreement

    def update(self, step, times=1):
        """Learn, and sync weights; what the last weight sync was judged to be."""
        for _ in range(times):
            self.owner.learn(self.engine.sample_text(4, 24).result(), step)
            judgement = self.sync_weights()
        return judgement


@pytest.fixture
def world(model, tmp_path):
    return World(model, tmp_path)


@pytest.mark.parametrize("step", [1e-6, STEP, FAR])
def test_the_precision_of_the_engine_is_no_fault(world, model, step):
    if (step, model) == (FAR, SMOLLM2):
        pytest.skip("four such updates take a pretrained model from 2.9 to 12 nats a token of English")
    assert world.first.warnings == ()
    for _ in range(4):
        judgement = world.update(step)
        assert judgement.warnings == ()
        assert 0.01 < judgement.difference < 0.1


def stays(wanted):
    """Tensors of that name stay as they are."""
    return lambda name, now, given: now if wanted in name else given


def transposed(wanted):
    return lambda name, now, given: given.T if wanted in name else given


@pytest.mark.parametrize(
    ("fault", "syncs"),
    [
        pytest.param(stays(""), 2, id="nothing arrives"),
        pytest.param(transposed("layers.3.self_attn.q_proj"), 1, id="a transposed weight"),
        pytest.param(transposed("layers.2.self_attn.o_proj"), 1, id="another transposed weight"),
    ],
)
def test_wrong_weights_end_the_run(world, fault, syncs):
    world.engine.fault = fault
    with pytest.raises(StaleWeights, match="engine-0"):
        world.update(STEP, syncs)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(stays("layers.3."), id="a layer"),
        pytest.param(stays(HEAD), id="the output head, which is tied"),
    ],
)
def test_a_part_that_stays_behind_is_told_once_it_matters(world, fault):
    world.engine.fault = fault
    told = []
    try:
        for _ in range(4):
            told += world.update(FAR).warnings
    except StaleWeights as error:
        told.append(str(error))
    assert told


def test_the_weights_of_the_version_before_end_the_run(world):
    """The engine is always one weight sync behind."""
    late = {}

    def behind(name, now, given):
        former = late.get(name, now)
        late[name] = given
        return former

    world.engine.fault = behind
    with pytest.raises(StaleWeights, match="older weights"):
        world.update(STEP, 3)


def test_an_engine_that_has_another_version_by_its_own_word_ends_the_run(world):
    world.engine.mislabels = -1
    with pytest.raises(StaleWeights, match="engine-0 took version 1 of the weights, and 2 was sent"):
        world.update(STEP)
