"""Costs of episodes that constraints limit: each returns a value for every played turn of a trajectory.

They read the same measurements as shaping terms, ``Turn.terms``. Missing measurements count as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from .bounds import held

if TYPE_CHECKING:
    from trainer.types import Trajectory, Turn


_OneTurn: TypeAlias = "Callable[[Turn], float]"

_COSTS: Mapping[str, _OneTurn] = {
    "turns": lambda _: 1.0,
    "tokens": lambda turn: float(turn.end - turn.start),
    "failed_actions": lambda turn: turn.terms.get("actions", 0.0) - turn.terms.get("succeeded", 0.0),
    "malformed_turns": lambda turn: 1.0 - turn.terms.get("well_formed", 1.0),
}


def costs_of(trajectory: Trajectory, name: str) -> tuple[float, ...]:
    """Return the cost of each played turn by the name that a constraint gives it."""
    cost = _COSTS.get(name) or (lambda turn: turn.terms.get(name, 0.0))
    return tuple(held(cost(turn)) for turn in trajectory.played_turns)
