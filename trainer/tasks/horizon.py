"""Grow the limit of turns of an episode during training."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.config import HorizonConfig


def horizon(config: HorizonConfig | None, step: int, bound: int) -> int:
    """Return the limit of turns of an episode that begins at a step, at most ``bound`` (AgentGym-RL, Xi et
    al. 2025).
    """
    if config is None:
        return bound
    return min(bound, config.first + config.add * (step // config.every))
