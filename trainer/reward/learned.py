"""Rewards by trained models, from what the models said of each turn when the episode was played.

``Turn.terms`` holds ``learned``, the score of the whole episode, at its last turn, and ``process/NAME``, the
probability that a process reward model gave to a dimension of the turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.config.learned_reward import ProcessRewardConfig
    from trainer.types import Trajectory

LEARNED = "learned"
PROCESS = "process/"


def learned_score(trajectory: Trajectory) -> float:
    """Return the score of the episode by its reward model, after normalization, bound and caps."""
    return sum(turn.terms.get(LEARNED, 0.0) for turn in trajectory.turns)


def process_rewards(trajectory: Trajectory, config: ProcessRewardConfig) -> tuple[float, ...]:
    """Return each turn's weighted dimensions minus the baseline, within the caps, before the weight."""
    rewards = []
    for turn in trajectory.played_turns:
        dimensions = config.dimensions.items()
        value = sum(weight * turn.terms.get(f"{PROCESS}{name}", 0.0) for name, weight in dimensions)
        value -= config.baseline
        if config.least is not None:
            value = max(value, config.least)
        rewards.append(value if config.most is None else min(value, config.most))
    return tuple(rewards)
