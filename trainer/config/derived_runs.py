"""Derive one run from another, such as the evaluation of a run's model.

``model_copy`` validates nothing, and the processes of a run read its settings again as JSON: an invalid run
would fail there, after the service, Ray and the engines have started. Derived runs are made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from trainer.errors import ConfigError

from .algorithm import AlgorithmConfig, ReturnToGo
from .learned_reward import STAGE, STAGE_MODELS, LearnedRewardConfig
from .learning import nothing_to_learn
from .reading import read_stored_run
from .reward import RewardConfig

if TYPE_CHECKING:
    from .run import RunConfig
    from .stages import StageConfig


_Part = TypeVar("_Part", bound=LearnedRewardConfig)

_LONGEST_NAME = 64
"""Characters of a run's name."""
_EVALUATION = ".evaluation"
"""End of an evaluation's name."""


def derived_run(config: RunConfig, changes: Mapping[str, object]) -> RunConfig:
    """Return the run with some settings changed, and with those that depend on them.

    A run with another number of steps has no phases, and reward models that no stage trains any longer are
    left out. Raises ConfigError for a run that is not valid.
    """
    run = config.model_copy(update=dict(changes))
    adapted: dict[str, object] = {"reward": _without_stages_gone(run.reward, run.stages)}
    if run.steps != config.steps:
        adapted["tasks"] = run.tasks.model_copy(update={"phases": ()})
    run = run.model_copy(update=adapted)
    # The copy is returned, and not what is read: it knows which settings were set.
    read_stored_run(run.model_dump_json())
    return run


def evaluation_run(config: RunConfig) -> RunConfig:
    """Return the run that plays the held-out tasks of another one, and learns nothing.

    Raises ConfigError for a run that is not valid.
    """
    algorithm = AlgorithmConfig(advantage=ReturnToGo(baseline="none"))
    sampling, evaluation = config.rollout.sampling, config.evaluation
    if sampling.top_k == 1:
        # A run that learns nothing may sample so, and one with steps may not: temperature 0 is the same.
        evaluation = evaluation.model_copy(update={"temperature": 0.0})
        sampling = sampling.model_copy(update={"top_k": None})
    # Held-out tasks are played at ``evaluation.temperature``.
    sampling = sampling.model_copy(update={"temperature": 1.0})
    rollout = config.rollout.model_copy(update={"sampling": sampling})
    reward = _with_models_of_stages(config)
    if nothing_to_learn(rollout, algorithm, reward) is not None:
        reward = RewardConfig()
    changes = {
        "name": f"{config.name[: _LONGEST_NAME - len(_EVALUATION)]}{_EVALUATION}",
        "warm_start": None,
        "stages": (),
        "steps": 1,
        "algorithm": algorithm,
        "evaluation": evaluation,
        "rollout": rollout,
        "reward": reward,
        # The tasks of training are only listed.
        "tasks": config.tasks.model_copy(update={"allow_evaluation_splits": True}),
    }
    return derived_run(config, changes)


def simulated_run(config: RunConfig) -> RunConfig:
    """Return the steps of reinforcement learning of a run, as they are played without a learner.

    Flat groups are kept, since scripts often do as well each time, and all episodes are recorded. Raises
    ConfigError for a run without such steps, and for one that is not valid.
    """
    if not config.steps:
        raise ConfigError("a simulation plays steps of reinforcement learning, and the run has none")
    algorithm = config.algorithm.model_copy(update={"drop_flat_groups": False})
    reward = _without_stages_gone(config.reward, ())
    if nothing_to_learn(config.rollout, algorithm, reward) is not None:
        reward = RewardConfig()
    changes = {
        "warm_start": None,
        "stages": (),
        "algorithm": algorithm,
        "tracking": config.tracking.model_copy(update={"trajectories": "all"}),
        "reward": reward,
    }
    return derived_run(config, changes)


def _without_stages_gone(reward: RewardConfig, stages: Sequence[StageConfig]) -> RewardConfig:
    names = {f"{STAGE}{stage.name}" for stage in stages}
    kept = {"learned": _trained(reward.learned, names), "process": _trained(reward.process, names)}
    return reward.model_copy(update=kept)


def _trained(part: _Part | None, names: set[str]) -> _Part | None:
    """Return the part without models of other stages than those named; None where no model is left."""
    if part is None:
        return None
    models = tuple(name for name in part.models if not name.startswith(STAGE) or name in names)
    return part.model_copy(update={"models": models}) if models else None


def _with_models_of_stages(config: RunConfig) -> RewardConfig:
    """Return the reward with the folders that stages write in place of the stages.

    Held-out episodes are not scored by reward models, but without them the rest of the reward would be
    shown as the whole of it.
    """
    changes: dict[str, object] = {}
    for name in ("learned", "process"):
        part: LearnedRewardConfig | None = getattr(config.reward, name)
        if part is not None:
            models = tuple(_folder(config, model) for model in part.models)
            changes[name] = part.model_copy(update={"models": models})
    return config.reward.model_copy(update=changes)


def _folder(config: RunConfig, model: str) -> str:
    if not model.startswith(STAGE):
        return model
    return str((config.folder / STAGE_MODELS / model.removeprefix(STAGE)).absolute())
