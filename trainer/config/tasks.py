"""Settings of training tasks and their order."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sandbox_settings import Branch, Count, NonNegative, Positive, Share


class HorizonConfig(Branch):
    """The number of turns grows with the steps (AgentGym-RL, Xi et al. 2025)."""

    first: Positive
    """Turns at the first step."""
    add: Positive = 1
    """Turns that are added each time."""
    every: Positive = 20
    """Steps between additions; the rollout's ``max_turns`` is the bound."""


class CurriculumConfig(Branch):
    """Order of tasks."""

    kind: Literal["shuffle", "levels", "adaptive"] = "shuffle"
    """shuffle: every task once an epoch, in a seeded order. levels: easy tasks until their success reaches
    the threshold, then medium and hard ones with some earlier ones. adaptive: tasks whose success is near
    the target come more often.
    """
    levels: tuple[str, ...] = ("easy", "medium", "hard")
    """Difficulties in order."""
    threshold: Share = 0.6
    """Success at a level that opens the next level."""
    window: Positive = 64
    """Number of a level's latest episodes that count."""
    earlier: Share = 0.25
    """Share of groups from levels already passed."""
    target: Share = 0.5
    """adaptive: the success rate with most signal."""
    exploration: Share = 0.1
    """adaptive: share of groups sampled uniformly."""
    horizon: HorizonConfig | None = None


class ReplayConfig(Branch):
    """Replay of earlier trajectories, for losses that support off-policy data."""

    share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of a batch's groups; 0: off."""
    capacity: Positive = 256
    """Groups kept."""
    max_age: Positive = 4
    """Greatest number of updates since they were sampled."""
    use_decay: NonNegative = 0.5
    """Factor of a group's priority for every use."""
    age_decay: NonNegative = 0.25
    """Factor of the priority for every update since the group was sampled."""


class TasksConfig(Branch):
    """Tasks of one environment."""

    environment: str = "code"
    """Environment of the tasks."""
    splits: tuple[str, ...] = ()
    """The environment's default split when empty."""
    limit: Count | None = None
    """Use only this many tasks."""
    curriculum: CurriculumConfig = CurriculumConfig()
    replay: ReplayConfig = ReplayConfig()
