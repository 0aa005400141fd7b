"""Assign steps to stages: the warm start first, then the run's stages in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainer.config import PreferencesStageConfig, ScoringStageConfig
from trainer.types import Objective

if TYPE_CHECKING:
    from trainer.config import OptimizerConfig, RunConfig, StageConfig
    from trainer.config.preferences import PreferenceLossConfig


@dataclass(frozen=True, slots=True)
class Stage:
    """Steps ``[first, last)`` with one objective and one optimizer."""

    index: int
    name: str
    objective: Objective
    first: int
    last: int
    optimizer: OptimizerConfig
    reference: bool = False
    """Whether the model as it is at the start of the stage is kept, to compare with it."""
    loss: PreferenceLossConfig | None = None
    """The loss of a stage on preferences."""
    reward: ScoringStageConfig | None = None
    """The settings of a stage that trains a reward model."""

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.last - self.first

    @property
    def plays(self) -> bool:
        """Whether engines play its episodes; otherwise it learns from given data."""
        return self.objective.plays_episodes

    def local(self, step: int) -> int:
        """Return the step as counted by the stage, from 0."""
        return step - self.first


@dataclass(frozen=True, slots=True)
class StagePlan:
    """All stages of a run."""

    stages: tuple[Stage, ...]

    @property
    def total(self) -> int:
        """Number of steps of the whole run."""
        return self.stages[-1].last

    def from_step(self, step: int) -> tuple[Stage, ...]:
        """Return the stages with remaining steps, the current one first."""
        return tuple(stage for stage in self.stages if stage.last > step)


def plan_of(config: RunConfig) -> StagePlan:
    """Return the stages of a run: its warm start, then its ``stages``, or ``steps`` of RL without any.

    Raises ValueError while the steps of a stage have not been counted in its data.
    """
    stages: list[Stage] = []
    if config.warm_start is not None:
        warm = config.warm_start
        stages.append(Stage(0, "warm_start", Objective.SFT, 0, warm.steps, warm.optimizer))
    for given in config.learning_stages:
        first = stages[-1].last if stages else 0
        stages.append(_stage(given, config, len(stages), first))
    return StagePlan(tuple(stages))


def _stage(given: StageConfig, config: RunConfig, index: int, first: int) -> Stage:
    return Stage(
        index=index,
        name=given.name,
        objective=given.objective,
        first=first,
        last=first + given.known_steps,
        optimizer=config.optimizer_of(given),
        reference=config.keeps_reference(given),
        loss=given.loss if isinstance(given, PreferencesStageConfig) else None,
        reward=given if isinstance(given, ScoringStageConfig) else None,
    )
