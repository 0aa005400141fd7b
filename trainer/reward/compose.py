"""The composed reward of an episode, and which of its turns earned what.

An episode without a verdict is worth nothing and weighs nothing: it is no evidence about the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .terms import TERMS, Limits

if TYPE_CHECKING:
    from trainer.config.reward import RewardConfig
    from trainer.types import Trajectory

__all__ = ["Scored", "score"]


@dataclass(frozen=True, slots=True)
class Scored:
    """A trajectory with its reward."""

    trajectory: Trajectory
    """With ``reward`` and ``terms`` set; weight 0 where there is no verdict."""
    turn_rewards: tuple[float, ...]
    """What each turn earned, over all segments, with the outcome in the last one. They sum to the reward
    unless there is no turn."""


def score(trajectory: Trajectory, config: RewardConfig, horizon: int, context_tokens: int) -> Scored:
    """Compose outcome, the environment's step rewards and shaping terms, and cap them.

    ``Trajectory.terms`` gets the weighed parts by name: ``outcome``, ``step``, each term that has a weight,
    and ``cap`` for what the caps added or took. They sum to the reward.

    Args:
        trajectory: as it was played.
        config: weights and caps.
        horizon: turns that the episode had.
        context_tokens: tokens that the model's context has.
    """
    turns = len(trajectory.turns)
    if not trajectory.scored:
        return Scored(replace(trajectory, reward=0.0, terms={}, weight=0.0), (0.0,) * turns)
    outcome = config.outcome_weight * _outcome(trajectory, config)
    parts = _shaping(trajectory, config, Limits(horizon, context_tokens))
    shaping = tuple(sum(column) for column in zip(*parts.values(), strict=True)) or (0.0,) * turns
    capped = _within(shaping, config.shaping_cap)
    uncapped = outcome + sum(shaping)
    reward = _between(outcome + sum(capped), config.least, config.most)
    terms = {"outcome": outcome, **{name: sum(values) for name, values in parts.items()}}
    if reward != uncapped:
        terms["cap"] = reward - uncapped
    earned = (*capped[:-1], reward - sum(capped[:-1])) if turns else ()
    return Scored(replace(trajectory, reward=reward, terms=terms), earned)


def _outcome(trajectory: Trajectory, config: RewardConfig) -> float:
    if config.outcome == "success":
        return 1.0 if trajectory.success else 0.0
    return trajectory.score or 0.0


def _shaping(trajectory: Trajectory, config: RewardConfig, limits: Limits) -> dict[str, tuple[float, ...]]:
    """What each part that has a weight gives each turn."""
    weights: dict[str, float] = config.terms.model_dump()
    parts: dict[str, tuple[float, ...]] = {}
    if config.step_weight:
        parts["step"] = tuple(config.step_weight * turn.reward for turn in trajectory.turns)
    for name, weight in weights.items():
        if weight:
            parts[name] = tuple(weight * value for value in TERMS[name](trajectory, limits))
    return parts


def _within(values: tuple[float, ...], cap: float | None) -> tuple[float, ...]:
    """The values, scaled down until the size of their sum is no greater than the cap."""
    size = abs(sum(values))
    if cap is None or size <= cap:
        return values
    return tuple(value * cap / size for value in values)


def _between(value: float, least: float | None, most: float | None) -> float:
    if least is not None:
        value = max(value, least)
    return value if most is None else min(value, most)
