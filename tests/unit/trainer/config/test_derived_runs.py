"""A run that is derived from another is valid for the processes that read it again, or refused at once."""

from pathlib import Path
from typing import get_args

import pytest

from trainer.config import RunConfig
from trainer.config.derived_runs import derived_run, evaluation_run, simulated_run
from trainer.config.reading import read_run, read_stored_run
from trainer.config.reward import RewardConfig
from trainer.config.stage_selection import StageKind, only_stages
from trainer.errors import ConfigError

SHIPPED = sorted(Path("deploy/runs").glob("*.toml"))
SOURCES = {
    "sources": [{"environment": "code"}, {"environment": "bfcl"}],
    "phases": [{"steps": 3, "sources": ["code"]}, {"steps": 4, "sources": ["bfcl"]}],
}
STAGES = [
    {"kind": "sft", "data": {"files": ["e.jsonl"]}, "epochs": 1.0},
    {"kind": "reward_model", "name": "critic", "data": {"files": ["p.jsonl"]}, "epochs": 1.0},
    {"kind": "rl", "steps": 2},
]


def config(**settings: object) -> RunConfig:
    return RunConfig.model_validate(settings)


def stored(run: RunConfig) -> RunConfig:
    """Return the run as its processes read it."""
    return read_stored_run(run.model_dump_json())


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_every_shipped_run_can_be_evaluated(file: Path) -> None:
    run = read_run(file)
    found = stored(evaluation_run(run))
    assert found.name == f"{run.name}.evaluation"
    assert (found.steps, found.stages, found.warm_start) == (1, (), None)


def test_an_evaluation_trains_on_no_split_and_may_list_those_for_evaluation() -> None:
    assert stored(evaluation_run(config())).tasks.allow_evaluation_splits


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_every_shipped_run_with_steps_of_reinforcement_learning_can_be_simulated(file: Path) -> None:
    run = read_run(file)
    if not run.steps:
        with pytest.raises(ConfigError, match="plays steps of reinforcement learning, and the run has none"):
            simulated_run(run)
        return
    found = stored(simulated_run(run))
    assert (found.steps, found.stages, found.warm_start) == (run.steps, (), None)
    assert (found.algorithm.drop_flat_groups, found.tracking.trajectories) == (False, "all")


def test_a_simulation_is_rewarded_by_what_is_left_without_the_models_of_stages() -> None:
    reward = {"learned": {"models": ["stage:critic"]}, "outcome_weight": 0.0, "step_weight": 0.5}
    assert simulated_run(config(stages=STAGES, reward=reward)).reward.step_weight == 0.5
    only_learned = simulated_run(config(stages=STAGES, reward={**reward, "step_weight": 0.0}))
    assert only_learned.reward == RewardConfig()


@pytest.mark.parametrize("kind", get_args(StageKind))
@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_the_stages_of_a_kind_of_every_shipped_run_can_be_trained_alone(file: Path, kind: StageKind) -> None:
    found = stored(only_stages(read_run(file), kind, [Path("rows.jsonl")]))
    assert [stage.kind for stage in found.stages] == [kind]


def test_the_longest_name_leaves_room_for_that_of_the_evaluation() -> None:
    name = stored(evaluation_run(config(name="n" * 64))).name
    assert (len(name), name[:54]) == (64, "n" * 53 + ".")


@pytest.mark.parametrize(
    "settings",
    [
        {"rollout": {"group_size": 1}},
        {"rollout": {"sampling": {"temperature": 0}}},
        {"reward": {"outcome_weight": 0}},
    ],
    ids=["one episode a group", "greedy", "no reward"],
)
def test_a_run_that_learns_nothing_from_its_episodes_can_be_evaluated(settings: dict[str, object]) -> None:
    stages = [{"kind": "sft", "data": {"files": ["e.jsonl"]}, "epochs": 1.0}]
    assert stored(evaluation_run(config(stages=stages, **settings))).steps == 1


def test_greedy_sampling_by_top_k_stays_greedy_in_an_evaluation() -> None:
    stages = [{"kind": "sft", "data": {"files": ["e.jsonl"]}, "epochs": 1.0}]
    found = stored(evaluation_run(config(stages=stages, rollout={"sampling": {"top_k": 1}})))
    assert (found.evaluation.temperature, found.rollout.sampling.top_k) == (0.0, None)


def test_an_evaluation_never_shows_a_part_of_the_reward_as_the_whole() -> None:
    """Reward models score no held-out episode, so that an evaluation of such a run has no reward."""
    run = config(stages=STAGES, reward={"learned": {"models": ["stage:critic"]}})
    assert not stored(evaluation_run(run)).reward.is_graded_by_environment


def test_reward_models_go_with_the_stages_that_train_them() -> None:
    both = {"models": ["stage:critic", "/models/other"]}
    run = config(stages=STAGES, reward={"learned": both})
    left = only_stages(run, "sft").reward.learned
    assert left is not None
    assert left.models == ("/models/other",)
    alone = config(stages=STAGES, reward={"learned": {"models": ["stage:critic"]}})
    assert only_stages(alone, "sft").reward.learned is None
    kept = only_stages(alone, "reward_model").reward.learned
    assert kept is not None
    assert kept.models == ("stage:critic",)


def test_phases_go_with_the_steps_that_they_divide() -> None:
    run = config(steps=7, tasks=SOURCES)
    assert derived_run(run, {"seed": 3}).tasks.phases == run.tasks.phases
    assert derived_run(run, {"steps": 1}).tasks.phases == ()


def test_a_derived_run_that_is_not_valid_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="nothing to do: steps is 0"):
        derived_run(config(), {"steps": 0})


def test_a_derived_run_knows_which_settings_were_set() -> None:
    run = config(learner={"workers": 2}, stages=STAGES)
    assert only_stages(run, "sft").learner.model_fields_set == {"workers"}
