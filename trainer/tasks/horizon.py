"""How many turns an episode may take, as training goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.config import HorizonConfig

__all__ = ["horizon"]


def horizon(config: HorizonConfig | None, step: int, bound: int) -> int:
    """Turns of an episode that begins at a step, at most ``bound`` (AgentGym-RL, Xi et al. 2025)."""
    if config is None:
        return bound
    return min(bound, config.first + config.add * (step // config.every))
