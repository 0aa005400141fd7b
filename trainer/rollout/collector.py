"""Play groups of episodes concurrently, for synchronous and asynchronous training.

The source decides which group may begin and what becomes of an ended one; the collector keeps as many groups
in progress as there are slots. After a failed group it pauses, longer each time, so that it does not flood a
service that is down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from local_processes.waiting import exponential_wait_s
from trainer.types import TrajectoryGroup

from .strategies import needed

if TYPE_CHECKING:
    from trainer.config import RolloutConfig
    from trainer.types import FailureNote, GroupSpec

    from .attempts import Attempts, PlayedEpisode
    from .backpressure import Slots


_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


class GroupEnd(StrEnum):
    """Outcome of playing a group."""

    PLAYED = "played"
    """Enough episodes have a verdict."""
    FAILED = "failed"
    """Too few have one, through no fault of the policy."""
    TASK_BROKEN = "task_broken"
    """The task or its grader is broken."""


@dataclass(frozen=True, slots=True)
class PlayedGroup:
    """A group that has ended."""

    group: TrajectoryGroup
    """The episodes that ended, in order of member; all episodes if the group was played."""
    end: GroupEnd
    failures: tuple[FailureNote, ...] = ()
    """Failures, including those of attempts that were retried."""


class GroupSource(Protocol):
    """Decides which groups are played, and keeps their results."""

    def next_group(self) -> GroupSpec | None:
        """Return the next group, which counts as begun; None when none may begin."""
        ...

    def group_ended(self, played: PlayedGroup) -> None:
        """Take the result of a group."""
        ...


class Collector:
    """Keeps groups in progress."""

    def __init__(
        self,
        attempts: Attempts,
        config: RolloutConfig,
        slots: Slots,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._attempts = attempts
        self._config = config
        self._slots = slots
        self._sleep = sleep
        self._wake = asyncio.Event()
        self._episodes = 0
        self._failed_in_turn = 0

    def wake(self) -> None:
        """Ask the source for groups again."""
        self._wake.set()

    async def run(self, source: GroupSource) -> None:
        """Play the source's groups until cancelled. Raises errors that no further attempt would correct."""
        groups: set[asyncio.Task[None]] = set()
        try:
            while True:
                # Before the source is asked: what it is woken for meanwhile is not missed.
                self._wake.clear()
                while self._episodes < self._slots.limit and (spec := source.next_group()) is not None:
                    self._episodes += spec.size
                    task = asyncio.create_task(self._through(spec, source), name=f"group {spec.index}")
                    task.add_done_callback(lambda _: self._wake.set())
                    groups.add(task)
                await self._wake.wait()
                for task in [task for task in groups if task.done()]:
                    groups.remove(task)
                    task.result()
        finally:
            await _cancel(groups)
            self._episodes = 0

    async def _through(self, spec: GroupSpec, source: GroupSource) -> None:
        played = await self._group(spec)
        self._failed_in_turn = 0 if played.end is GroupEnd.PLAYED else self._failed_in_turn + 1
        if played.end is GroupEnd.FAILED:
            # Before the source knows: it would begin another group at once.
            await self._sleep(exponential_wait_s(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, self._failed_in_turn))
        source.group_ended(played)

    async def _group(self, spec: GroupSpec) -> PlayedGroup:
        tasks = [asyncio.create_task(self._member(spec, member)) for member in range(spec.size)]
        for task in tasks:
            task.add_done_callback(self._episode_over)
        over: dict[int, PlayedEpisode] = {}
        end = GroupEnd.PLAYED
        try:
            for first in asyncio.as_completed(tasks):
                member, played = await first
                over[member] = played
                end = self._verdict(spec, over)
                # The group cannot be used any more, so the rest of it is not played.
                if end is not GroupEnd.PLAYED:
                    break
        finally:
            await _cancel(tasks)
        trajectories = tuple(over[member].trajectory for member in sorted(over))
        failures = tuple(note for member in sorted(over) for note in over[member].failures)
        return PlayedGroup(TrajectoryGroup(spec, trajectories), end, failures)

    async def _member(self, spec: GroupSpec, member: int) -> tuple[int, PlayedEpisode]:
        return member, await self._attempts.play_episode(spec, member, self._config.sampling_of(member))

    def _episode_over(self, _: object) -> None:
        self._episodes -= 1
        self._wake.set()

    def _verdict(self, spec: GroupSpec, over: dict[int, PlayedEpisode]) -> GroupEnd:
        if any(played.task_broken for played in over.values()):
            return GroupEnd.TASK_BROKEN
        without = sum(not played.trajectory.scored for played in over.values())
        if spec.size - without < needed(self._config.strategy, spec.size):
            return GroupEnd.FAILED
        return GroupEnd.PLAYED


async def _cancel(tasks: set[asyncio.Task[None]] | list[asyncio.Task[tuple[int, PlayedEpisode]]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
