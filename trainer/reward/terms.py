"""Shaping terms: each returns a value for every played turn of a trajectory, before its weight.

A term's value is the sum over turns. The measurements are in ``Turn.terms``: ``actions`` (that were parsed),
``succeeded`` (of them), ``well_formed``, ``files`` (one was created or edited) and ``progress`` (the
environment's measure after the turn, where it has one). Missing measurements count as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from trainer.types import Trajectory


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the episode."""

    horizon: int
    """Turns."""
    context_tokens: int


Term: TypeAlias = "Callable[[Trajectory, Limits], tuple[float, ...]]"


def execution_success(trajectory: Trajectory, limits: Limits) -> tuple[float, ...]:
    """Return the share of executed actions that succeeded, divided over turns."""
    executed = sum(turn.terms.get("actions", 0.0) for turn in trajectory.turns)
    return tuple(_share(turn.terms.get("succeeded", 0.0), executed) for turn in trajectory.played_turns)


def file_operation(trajectory: Trajectory, limits: Limits) -> tuple[float, ...]:
    """Return 1 for the first turn that created or edited a file."""
    made = [turn.terms.get("files", 0.0) > 0 for turn in trajectory.played_turns]
    first = made.index(True) if any(made) else -1
    return tuple(1.0 if index == first else 0.0 for index in range(len(made)))


def progress(trajectory: Trajectory, limits: Limits) -> tuple[float, ...]:
    """Return the increase of the environment's measure since the turn before, from 0; it sums to the last
    measure.

    A difference of potentials (Ng et al. 1999), so that alternating moves earn nothing.
    """
    earned: list[float] = []
    reached = 0.0
    for turn in trajectory.played_turns:
        measure = turn.terms.get("progress", reached)
        earned.append(measure - reached)
        reached = measure
    return tuple(earned)


def efficiency(trajectory: Trajectory, limits: Limits) -> tuple[float, ...]:
    """Return 1 - turns / horizon for a solved episode, at least 0, at its last turn."""
    turns = len(trajectory.turns)
    saved = max(0.0, 1.0 - _share(turns, limits.horizon)) if trajectory.success else 0.0
    return _at_last(turns, saved)


def format_(trajectory: Trajectory, limits: Limits) -> tuple[float, ...]:
    """Return the share of turns with a well-formed action, divided over turns."""
    turns = trajectory.played_turns
    return tuple(_share(turn.terms.get("well_formed", 0.0), len(turns)) for turn in turns)


def length(trajectory: Trajectory, limits: Limits) -> tuple[float, ...]:
    """Return minus sampled tokens over the context, at least -1 in total, divided over turns."""
    sampled = [turn.end - turn.start for turn in trajectory.played_turns]
    room = max(limits.context_tokens, sum(sampled))
    return tuple(-_share(tokens, room) for tokens in sampled)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _at_last(turns: int, value: float) -> tuple[float, ...]:
    return (*(0.0,) * (turns - 1), value) if turns else ()


TERMS: Mapping[str, Term] = {
    "efficiency": efficiency,
    "execution_success": execution_success,
    "file_operation": file_operation,
    "format": format_,
    "length": length,
    "progress": progress,
}
"""Terms by their names in ``TermWeights``."""
