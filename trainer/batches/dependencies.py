"""The collaborators of a batch producer, and its status."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trainer.rollout.backpressure import StatsService
from trainer.tasks.catalog import TaskService

from .journal import BatchJournal

if TYPE_CHECKING:
    from trainer.rollout.attempts import AttemptPlayer
    from trainer.rollout.progress import ProgressMonitor
    from trainer.tracking.tracker import Tracker
    from trainer.types import Batch, GroupSpec

    from .assemble import Score


class SandboxService(TaskService, StatsService, Protocol):
    """The methods of the service's client that the producer calls; episodes use their own client."""


class RecordedBatches(Protocol):
    """Batches of given data: demonstrations or recorded episodes."""

    def get_batch(self, step: int) -> Batch:
        """Return the batch of a step, the same whenever it is asked for."""
        ...


@dataclass(frozen=True, slots=True)
class StageData:
    """The data of one stage."""

    name: str
    """Name in messages."""
    prepare: Callable[[], Awaitable[RecordedBatches]]
    """Reads, plays or tokenizes the data, when it is first asked for."""
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The collaborators of a batch producer."""

    service: SandboxService
    player: AttemptPlayer
    watch: ProgressMonitor
    """The player reports its episodes' phases to it."""
    score: Score
    tracker: Tracker
    prepare: Callable[[GroupSpec, int], None] | None = None
    """Creates the instance of a member's episode before it may begin."""
    recorded: Mapping[int, StageData] = field(default_factory=dict)
    """Data of the stages that play no episodes, by their place in the run."""
    close: Callable[[], Awaitable[None]] | None = None
    """Closes client and policy."""
    journal: Callable[[Path], BatchJournal] = BatchJournal
    """Opens the journal."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    tick_s: float = 1.0
    """Seconds between two looks of a wait at the clock."""


@dataclass(frozen=True, slots=True)
class ProducerStatus:
    """Progress of a batch producer."""

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
