"""Who is doing what, and since when: so that a wait that does not end can say what it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_NO_PROGRESS = frozenset({"create", "release"})
"""An episode that enters one of these may do so without ever having got anywhere."""
_SAMPLING = "generate"


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
        self._sampling = 0
        self._counted_from = self._seen_at = self._progress_at
        self._idle_s = 0.0

    def entered(self, trajectory_id: str, phase: str, instance_id: str = "") -> None:
        """An episode goes on to another phase."""
        now = self._clock()
        before = self._episodes.get(trajectory_id)
        known = instance_id or (before.instance_id if before and phase != "create" else "")
        self._count(before, phase)
        self._episodes[trajectory_id] = Watched(trajectory_id, phase, known, now)
        if phase not in _NO_PROGRESS:
            self._progress_at = now

    def follow(self, trajectory_id: str, phase: str, instance_id: str) -> None:
        """What another process tells of an episode that is under way here."""
        known = self._episodes.get(trajectory_id)
        if known is not None and (known.phase, known.instance_id) != (phase, instance_id):
            self.entered(trajectory_id, phase, instance_id)

    def phases(self) -> dict[str, tuple[str, str]]:
        """Phase and instance of each episode under way, by its id."""
        return {name: (each.phase, each.instance_id) for name, each in self._episodes.items()}

    def ended(self, trajectory_id: str, *, verdict: bool) -> None:
        """An episode is over; one without a verdict is no progress."""
        self._count(self._episodes.pop(trajectory_id, None), "")
        if verdict:
            self._progress_at = self._clock()

    def troubled(self, what: str) -> None:
        """The latest failure, for the report."""
        self._trouble = what

    def restart(self) -> None:
        """Somebody begins to wait, or there was progress elsewhere: silence counts from here."""
        self._progress_at = self._clock()

    def now(self) -> float:
        """Monotonic seconds."""
        return self._clock()

    @property
    def silence_s(self) -> float:
        """Seconds without progress."""
        return self._clock() - self._progress_at

    def idle_share(self) -> float:
        """Share of the time since the last call in which no episode was being sampled."""
        self._count(None, "")
        now = self._clock()
        share = self._idle_s / (now - self._counted_from) if now > self._counted_from else 0.0
        self._counted_from, self._idle_s = now, 0.0
        return share

    def in_phase(self, phase: str) -> int:
        """How many episodes are in a phase."""
        return sum(episode.phase == phase for episode in self._episodes.values())

    def _count(self, before: Watched | None, phase: str) -> None:
        now = self._clock()
        if not self._sampling:
            self._idle_s += now - self._seen_at
        self._seen_at = now
        self._sampling += (phase == _SAMPLING) - (before is not None and before.phase == _SAMPLING)

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
