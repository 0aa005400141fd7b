"""A run's stages: their order, names, and the sentences for what cannot be."""

from pathlib import Path
from typing import get_args

import pytest

from sandbox_settings import to_toml
from trainer.config import (
    PairedStageConfig,
    PreferencesStageConfig,
    RewardModelStageConfig,
    RunConfig,
    StageConfig,
)
from trainer.config.reading import read_run
from trainer.config.stage_selection import only_stages
from trainer.errors import ConfigError
from trainer.loop.plan import plan_of
from trainer.types import Objective

RUN = """
[[stages]]
kind = "sft"
data = { files = ["a.jsonl"] }
steps = 3

[[stages]]
kind = "preferences"
loss = { kind = "ipo", beta = 0.5 }
data = { files = ["b.jsonl"] }
steps = 4

[[stages]]
kind = "rl"
steps = 5
"""


def read(tmp_path, text):
    file = tmp_path / "run.toml"
    file.write_text(text, encoding="utf-8")
    return read_run(file)


def test_stages_follow_one_another(tmp_path):
    plan = plan_of(read(tmp_path, RUN))
    assert [(stage.name, stage.objective, stage.first, stage.last) for stage in plan.stages] == [
        ("sft", Objective.SFT, 0, 3),
        ("preferences", Objective.PREFERENCES, 3, 7),
        ("rl", Objective.POLICY, 7, 12),
    ]
    assert plan.total == 12


def test_the_steps_of_a_run_are_those_of_its_reinforcement_learning(tmp_path):
    config = read(tmp_path, RUN)
    assert (config.steps, config.offline_steps) == (5, 7)
    assert RunConfig.model_validate_json(config.model_dump_json()) == config
    assert read(tmp_path, to_toml(config)) == config


def test_stages_that_learn_from_pairs_share_the_rule_by_which_they_are_made():
    holders = [each for each in get_args(get_args(StageConfig)[0]) if "pairs" in each.model_fields]
    assert holders == [PreferencesStageConfig, RewardModelStageConfig]
    assert [each for each in holders if "pairs" in each.__annotations__] == []
    assert all(issubclass(each, PairedStageConfig) for each in holders)


def test_without_stages_a_run_is_its_warm_start_and_its_steps():
    config = RunConfig(steps=2, warm_start={"demonstrations": "d.jsonl", "steps": 3})
    assert [(stage.name, stage.steps) for stage in plan_of(config).stages] == [("warm_start", 3), ("rl", 2)]


def test_a_warm_start_comes_before_all_stages(tmp_path):
    config = read(tmp_path, 'warm_start = { demonstrations = "d.jsonl", steps = 2 }\n' + RUN)
    assert [stage.name for stage in plan_of(config).stages] == ["warm_start", "sft", "preferences", "rl"]
    assert list(config.offline_stages) == [1, 2]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            RUN + '[[stages]]\nkind="sft"\nname="late"\ndata={files=["a"]}\nsteps=1',
            "late comes after the one of",
        ),
        (
            RUN.replace('kind = "preferences"\nloss = { kind = "ipo", beta = 0.5 }', 'kind = "sft"'),
            "two stages",
        ),
        ("steps = 9\n" + RUN, "steps belongs to run files without stages"),
        (RUN.replace("steps = 3", ""), "set steps or epochs"),
        (RUN.replace('"sft"', '"sfd"'), r"stages.0: 'sfd' is not one of: sft, preferences"),
        (RUN.replace("beta", "betta"), r"stages.1.loss.betta: there is no such setting; did you mean beta"),
        (RUN.replace("data =", "dater ="), r"stages.0.dater: there is no such setting; did you mean data"),
    ],
    ids=["after rl", "same name", "steps twice", "no end", "kind", "in a loss", "in a stage"],
)
def test_what_cannot_be_is_named(tmp_path, text, sentence):
    with pytest.raises(ConfigError, match=sentence):
        read(tmp_path, text)


def test_the_stages_of_one_kind_are_run_alone(tmp_path):
    config = read(tmp_path, RUN)
    assert [stage.name for stage in plan_of(only_stages(config, "sft")).stages] == ["sft"]
    assert [stage.name for stage in plan_of(only_stages(config, "preferences")).stages] == ["preferences"]


def test_other_files_may_take_the_place_of_a_stages_data(tmp_path):
    (stage,) = only_stages(read(tmp_path, RUN), "preferences", [Path("c.jsonl"), Path("d.jsonl")]).stages
    assert stage.data.files == (Path("c.jsonl"), Path("d.jsonl"))
    assert stage.loss.beta == 0.5


def test_a_run_without_a_stage_gets_one_pass_over_the_named_files():
    (stage,) = only_stages(RunConfig(), "sft", [Path("c.jsonl")]).stages
    assert (stage.epochs, stage.data.files) == (1.0, (Path("c.jsonl"),))


def test_a_run_without_data_has_nothing_to_train_on():
    with pytest.raises(ConfigError, match="no stage of kind sft and no warm start"):
        only_stages(RunConfig(), "sft")


def test_a_run_without_reinforcement_learning_loads_no_teacher(tmp_path):
    config = RunConfig.model_validate(
        {"algorithm": {"distillation": {"teacher": {"kind": "model", "path": str(tmp_path)}}}}
    )
    assert config.learner_settings.algorithm.model_teacher is not None
    only_supervised = only_stages(config, "sft", [Path("c.jsonl")])
    assert only_supervised.learner_settings.algorithm.model_teacher is None
