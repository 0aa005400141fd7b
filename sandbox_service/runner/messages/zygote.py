"""Messages between the main process and the zygote. Workers have numbers; only the zygote knows pids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .codec import Codec, RunnerMessage


@dataclass(frozen=True, slots=True)
class ForkWorker(RunnerMessage):
    """Fork a worker that serves the socket which comes with this."""

    kind: ClassVar[str] = "fork_worker"
    worker: int


@dataclass(frozen=True, slots=True)
class AdoptWorker(RunnerMessage):
    """Take a child, which is a worker's copy of itself, for a worker."""

    kind: ClassVar[str] = "adopt_worker"
    worker: int
    pid: int


@dataclass(frozen=True, slots=True)
class EndWorker(RunnerMessage):
    """Kill a worker; ``WorkerGone`` follows."""

    kind: ClassVar[str] = "end_worker"
    worker: int


@dataclass(frozen=True, slots=True)
class EndAllWorkers(RunnerMessage):
    """Kill all workers; ``AllEnded`` follows."""

    kind: ClassVar[str] = "end_all_workers"


@dataclass(frozen=True, slots=True)
class WorldReady(RunnerMessage):
    """The world is imported: workers can be forked."""

    kind: ClassVar[str] = "world_ready"


@dataclass(frozen=True, slots=True)
class WorldFailed(RunnerMessage):
    """The world cannot be imported; the box is of no use."""

    kind: ClassVar[str] = "world_failed"
    detail: str


@dataclass(frozen=True, slots=True)
class WorkerGone(RunnerMessage):
    """A worker has ended, or could not be forked or adopted."""

    kind: ClassVar[str] = "worker_gone"
    worker: int


@dataclass(frozen=True, slots=True)
class AllEnded(RunnerMessage):
    """No worker and no process of one is left, unless ``clean`` is False."""

    kind: ClassVar[str] = "all_ended"
    clean: bool


REQUESTS = Codec[ForkWorker | AdoptWorker | EndWorker | EndAllWorkers](
    ForkWorker, AdoptWorker, EndWorker, EndAllWorkers
)
Report = WorldReady | WorldFailed | WorkerGone | AllEnded
REPORTS = Codec[Report](WorldReady, WorldFailed, WorkerGone, AllEnded)
