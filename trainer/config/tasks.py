"""Which tasks are trained on, and in which order."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sandbox_settings import Branch, Count, NonNegative, Positive, Share

__all__ = ["CurriculumConfig", "HorizonConfig", "ReplayConfig", "TasksConfig"]


class HorizonConfig(Branch):
    """The number of turns grows with the steps (AgentGym-RL, Xi et al. 2025)."""

    first: Positive
    """Turns at the first step."""
    add: Positive = 1
    every: Positive = 20
    """Steps between additions; the rollout's ``max_turns`` is the bound."""


class CurriculumConfig(Branch):
    """Which task comes next."""

    kind: Literal["shuffle", "levels", "adaptive"] = "shuffle"
    """shuffle: every task once an epoch, in a seeded order. levels: easy tasks until they succeed, then
    medium ones among them, then hard ones. adaptive: tasks that sometimes succeed come more often."""
    levels: tuple[str, ...] = ("easy", "medium", "hard")
    """Difficulties in order."""
    threshold: Share = 0.6
    """Success at a level that opens the next."""
    window: Positive = 64
    """Latest episodes of a level that count."""
    earlier: Share = 0.25
    """Share of groups that are taken from levels already passed."""
    target: Share = 0.5
    """adaptive: the success that carries most signal."""
    exploration: Share = 0.1
    """adaptive: share of groups drawn evenly."""
    horizon: HorizonConfig | None = None


class ReplayConfig(Branch):
    """Trajectories that are used again, for losses that can be off policy."""

    share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of a batch's groups; 0 is off."""
    capacity: Positive = 256
    """Groups kept."""
    max_age: Positive = 4
    """Updates since they were sampled."""
    use_decay: NonNegative = 0.5
    """Priority falls by this with every use, and with every update by ``age_decay``."""
    age_decay: NonNegative = 0.25


class TasksConfig(Branch):
    """Tasks of one environment."""

    environment: str = "code"
    splits: tuple[str, ...] = ()
    """The environment's default split when empty."""
    limit: Count | None = None
    """Only the first so many tasks."""
    curriculum: CurriculumConfig = CurriculumConfig()
    replay: ReplayConfig = ReplayConfig()
