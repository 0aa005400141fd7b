"""What an experience is put together from, and what it tells about itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trainer.rollout.backpressure import StatsService
from trainer.tasks.catalog import TaskService

from .journal import Journal

if TYPE_CHECKING:
    from trainer.rollout.attempts import Player
    from trainer.rollout.watch import Watch
    from trainer.tracking.tracker import Tracker
    from trainer.types import Batch, GroupSpec

    from .assemble import Score


class SandboxService(TaskService, StatsService, Protocol):
    """What of the service's client is used here; episodes have their own way to it."""


class Imitation(Protocol):
    """Batches of the warm start."""

    def batch(self, step: int) -> Batch:
        """A step's demonstrations, the same whenever they are asked for."""
        ...


@dataclass(frozen=True, slots=True)
class Parts:
    """Whom an experience works with."""

    service: SandboxService
    player: Player
    watch: Watch
    """The player tells it its phases."""
    score: Score
    tracker: Tracker
    prepare: Callable[[GroupSpec, int], None] | None = None
    """Creates the instance of a member's episode before it may begin."""
    imitation: Callable[[], Awaitable[Imitation]] | None = None
    """Plays the demonstrations, when they are first asked for."""
    close: Callable[[], Awaitable[None]] | None = None
    """Lets go of client and policy."""
    journal: Callable[[Path], Journal] = Journal
    """Opens the journal."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    tick_s: float = 1.0
    """How often a wait looks at the clock."""


@dataclass(frozen=True, slots=True)
class ExperienceStatus:
    """Where it stands."""

    next_step: int
    version: int | None
    ready: int
    """Groups that wait for a step."""
    playing: int
    """Groups under way."""
    episodes: int
    """Episodes under way."""
    slots: int
    """Episodes that may be under way."""
