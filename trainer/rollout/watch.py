"""Who is doing what, and since when: so that a wait that does not end can say what it waits for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Watch", "Watched"]

_IDLE_PHASES = frozenset({"waiting", "create"})
"""An episode that enters one of these has not got anywhere yet."""


@dataclass(frozen=True, slots=True)
class Watched:
    """An episode under way."""

    trajectory_id: str
    phase: str
    instance_id: str
    since: float
    """Monotonic seconds."""


class Watch:
    """Episodes under way by phase, and the time of the last progress."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._episodes: dict[str, Watched] = {}
        self._progress_at = clock()
        self._trouble = ""

    def entered(self, trajectory_id: str, phase: str, instance_id: str = "") -> None:
        """An episode goes on to another phase."""
        now = self._clock()
        before = self._episodes.get(trajectory_id)
        known = instance_id or (before.instance_id if before and phase not in _IDLE_PHASES else "")
        self._episodes[trajectory_id] = Watched(trajectory_id, phase, known, now)
        if phase not in _IDLE_PHASES:
            self._progress_at = now

    def ended(self, trajectory_id: str, *, verdict: bool) -> None:
        """An episode is over; one without a verdict is no progress."""
        self._episodes.pop(trajectory_id, None)
        if verdict:
            self._progress_at = self._clock()

    def troubled(self, what: str) -> None:
        """The latest failure, for the report."""
        self._trouble = what

    def restart(self) -> None:
        """Somebody begins to wait: silence counts from here."""
        self._progress_at = self._clock()

    def now(self) -> float:
        """Monotonic seconds."""
        return self._clock()

    @property
    def silence_s(self) -> float:
        """Seconds without progress."""
        return self._clock() - self._progress_at

    def in_phase(self, phase: str) -> int:
        """How many episodes are in a phase."""
        return sum(episode.phase == phase for episode in self._episodes.values())

    def report(self, most: int = 3) -> str:
        """What is being waited for: the episodes that have been in their phase for longest."""
        now = self._clock()
        longest = sorted(self._episodes.values(), key=lambda episode: episode.since)
        told = [f"no progress for {self.silence_s:.0f} s, {len(longest)} episodes under way"]
        told += [
            f"episode {episode.trajectory_id} in {episode.phase} for {now - episode.since:.0f} s"
            + (f" (instance {episode.instance_id})" if episode.instance_id else "")
            for episode in longest[:most]
        ]
        if self._trouble:
            told.append(f"latest failure: {self._trouble}")
        return "; ".join(told)
