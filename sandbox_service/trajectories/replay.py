"""Which recorded actions rebuild an instance of a deterministic environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .bodies import object_of
from .records import EventKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .records import EventRecord

__all__ = ["Replay", "replay_of"]


@dataclass(frozen=True, slots=True)
class Replay:
    """The recorded operations to send again, in order."""

    create: EventRecord
    steps: tuple[EventRecord, ...]


def replay_of(events: Sequence[EventRecord]) -> Replay:
    """The create and the steps that succeeded.

    Raises ServiceError(INSTANCE_LOST) when the history has no beginning or a hole: a world rebuilt from
    that would not be the one that the agent saw.
    """
    creates = [event for event in events if event.kind is EventKind.CREATE and event.status < 400]
    if len(creates) != 1:
        raise ServiceError(ErrorCode.INSTANCE_LOST, "the instance's beginning is not on record")
    steps = tuple(event for event in events if event.kind is EventKind.STEP and event.status < 400)
    for expected, step in enumerate(steps):
        if (object_of(step.response) or {}).get("step_index") != expected:
            raise ServiceError(ErrorCode.INSTANCE_LOST, f"step {expected} of the instance is not on record")
    return Replay(creates[0], steps)
