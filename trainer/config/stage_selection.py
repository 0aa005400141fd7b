"""Reduce a run to its stages of one kind, for the commands that run these alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from trainer.errors import ConfigError

from .derived_runs import derived_run
from .recorded import RecordedFiles
from .stages import (
    OfflineStageConfig,
    PreferencesStageConfig,
    ProcessRewardModelStageConfig,
    RewardModelStageConfig,
    SftStageConfig,
)

if TYPE_CHECKING:
    from .run import RunConfig


_Selectable: TypeAlias = (
    SftStageConfig | PreferencesStageConfig | RewardModelStageConfig | ProcessRewardModelStageConfig
)
StageKind: TypeAlias = Literal["sft", "preferences", "reward_model", "process_reward_model"]
"""Kinds of stages that a command runs alone."""
_STAGES: dict[str, type[_Selectable]] = {
    "sft": SftStageConfig,
    "preferences": PreferencesStageConfig,
    "reward_model": RewardModelStageConfig,
    "process_reward_model": ProcessRewardModelStageConfig,
}


_REMEDIES = {
    "sft": " and no warm start; name recorded episodes by --data FILE, or set "
    "warm_start.demonstrations=FILE, written by `sandbox-service envs references` or "
    "`sandbox-trainer demonstrations`",
    "preferences": "; add one to its stages, or name recorded preferences by --data FILE",
    "reward_model": "; add one to its stages, or name pairs of completions by --data FILE",
    "process_reward_model": "; add one to its stages, or name episodes with labelled steps by --data FILE",
}


def only_stages(config: RunConfig, kind: StageKind, data: Sequence[Path] = ()) -> RunConfig:
    """Return the run with its stages of a kind alone, and for ``sft`` its warm start.

    ``data`` are files in place of those of the stage; a run without a stage of the kind gets one, of one pass
    over them. Raises ConfigError for a run with nothing to train on, and for data of several stages.
    """
    stages = [stage for stage in config.stages if isinstance(stage, _STAGES[kind])]
    if data:
        stages = [_on(data, kind, stages)]
    warm_start = config.warm_start if kind == "sft" and not data else None
    if not stages and warm_start is None:
        raise ConfigError(f"the run has no stage of kind {kind}{_REMEDIES[kind]}")
    return derived_run(config, {"stages": tuple(stages), "steps": 0, "warm_start": warm_start})


def _on(data: Sequence[Path], kind: str, stages: Sequence[OfflineStageConfig]) -> _Selectable:
    if len(stages) > 1:
        names = ", ".join(stage.name for stage in stages)
        raise ConfigError(
            f"the run has several stages of kind {kind} ({names}); set data of each in its file"
        )
    if not stages:
        return _STAGES[kind](name=kind, data=RecordedFiles(files=tuple(data)), epochs=1.0)
    (stage,) = stages
    changed = stage.data.model_copy(update={"files": tuple(data)})
    found = stage.model_copy(update={"data": changed})
    assert isinstance(found, _Selectable)
    return found
