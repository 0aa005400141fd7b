"""Calls of a session that the engines failed, until they are made good by being made again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.errors import EngineError, Stalled

    from .retries import RetryMarker


@dataclass(slots=True)
class _Failed:
    error: EngineError | Stalled
    digest: bytes | None
    """Of the call's path and body; None for one that cannot be known again."""
    repeated: bool = False
    """Whether a call in progress makes it again."""


class FailedCalls:
    """The failed calls of one session. Of equal calls that failed side by side, each is to be made again."""

    def __init__(self) -> None:
        self._failed: dict[int, _Failed] = {}

    @property
    def first(self) -> EngineError | Stalled | None:
        """The error of the first call that was not made good; None without one."""
        return next((each.error for each in self._failed.values()), None)

    def repeat(self, number: int, marker: RetryMarker | None) -> int:
        """Return the number of the failed call that a new one makes again, or the new one's own.

        A call in progress is none that it could make again.
        """
        for failed_number, each in self._failed.items():
            if marker is not None and each.digest == marker.digest and not each.repeated:
                each.repeated = True
                return failed_number
        return number

    def fail(self, number: int, error: EngineError | Stalled, marker: RetryMarker | None) -> None:
        """Note the failure of a call, by the number that ``repeat`` returned for it."""
        self._failed[number] = _Failed(error, None if marker is None else marker.digest)

    def finish_repeat(self, number: int, *, answered: bool) -> None:
        """Note that the call is no longer in progress."""
        if answered:
            self._failed.pop(number, None)
        elif number in self._failed:
            self._failed[number].repeated = False
