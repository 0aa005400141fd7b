"""Causes of unsolved episodes: the reason why an episode with a score did not solve its task."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from trainer.types import StopReason

if TYPE_CHECKING:
    from trainer.types import Trajectory


class UnsolvedCause(StrEnum):
    """The event or limit that ended an unsolved episode."""

    WRONG_ANSWER = "wrong_answer"
    """The episode came to its end, and the grade is that of an unsolved task."""
    FORMAT_ERROR = "format_error"
    """The last turn held no action that the environment understood."""
    TURN_CUT = "turn_cut"
    """The last turn reached its token limit before its action was complete."""
    MAX_TURNS = "max_turns"
    """The limit of turns, the trainer's or the environment's."""
    CONTEXT_FULL = "context_full"
    """The context had no room for another turn."""
    TIME_LIMIT = "time_limit"
    """The time limit of a turn or of the episode."""
    AGENT_ERROR = "agent_error"
    """The run's agent raised, or exited with an error."""
    POLICY_FAILURE = "policy_failure"
    """The service reported a failure of the policy, such as a program that exhausted its box."""


_BY_STOP = {
    StopReason.CONTEXT_FULL: UnsolvedCause.CONTEXT_FULL,
    StopReason.TIME_LIMIT: UnsolvedCause.TIME_LIMIT,
    StopReason.AGENT_ERROR: UnsolvedCause.AGENT_ERROR,
    StopReason.FAILED: UnsolvedCause.POLICY_FAILURE,
}
"""Stops that are causes whatever the last turn was."""
_LIMITS = (StopReason.HORIZON, StopReason.TRUNCATED)


def cause_of(trajectory: Trajectory) -> UnsolvedCause | None:
    """Return the cause of an unsolved episode; None for one that is solved or has no score.

    A format error is known only where the environment reports the actions of a turn.
    """
    if not trajectory.scored or trajectory.success:
        return None
    if trajectory.stop in _BY_STOP:
        return _BY_STOP[trajectory.stop]
    last = trajectory.played_turns[-1] if trajectory.turns else None
    understood = last is None or last.terms.get("well_formed", 1.0) > 0
    if trajectory.stop is StopReason.TURN_CUT or (last is not None and last.cut and not understood):
        return UnsolvedCause.TURN_CUT
    if not understood:
        return UnsolvedCause.FORMAT_ERROR
    return UnsolvedCause.MAX_TURNS if trajectory.stop in _LIMITS else UnsolvedCause.WRONG_ANSWER
