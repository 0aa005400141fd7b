"""Worker processes: forked by the zygote, fed with frames, killed at their deadline.

A worker answers in order. The clock of a frame runs only while it is the oldest unanswered one, so that a
neighbour's slowness on a shared worker is never held against a frame that waits behind it. The clock stands
still for some time while a worker says that it waits for the launcher: an agent whose processes are slow to
die must not end its instance so, and escape its score.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_service.runner.io.frame_connection import FrameConnection, QueuedBytes
from sandbox_service.runner.messages.zygote import AdoptWorker, EndAllWorkers, EndWorker, ForkWorker
from sandbox_service.wire.frames import Op

if TYPE_CHECKING:
    from sandbox_service.runner.io.event_loop import EventLoop
    from sandbox_service.runner.io.message_connection import MessageConnection
    from sandbox_service.runner.messages.zygote import Report
    from sandbox_service.wire.frames import Frame


_LAUNCHER_S = 20.0
"""Most seconds for which a frame's clock stands still while its worker waits: time for two attempts to end
all processes of an agent, and less than the host waits beyond a deadline."""


@dataclass(slots=True)
class Waiting:
    """A frame that a worker has not answered yet."""

    frame: Frame
    deadline_s: float
    answer: Callable[[Frame], None]


@dataclass(slots=True, eq=False)
class WorkerProcess:
    """One worker process, as the runner knows it."""

    number: int
    connection: FrameConnection
    instances: set[str] = field(default_factory=set)
    waiting: deque[Waiting] = field(default_factory=deque)
    deadline: float | None = None
    """The moment at which the oldest unanswered frame is late."""
    latest: float | None = None
    """The same, should the worker wait for the launcher until then."""
    left_s: float | None = None
    """The seconds that it had left when it began to wait for the launcher; None while it does not wait."""
    armed: float | None = None
    """The moment at which the timer that was set last goes off."""
    late: bool = False
    lost: bool = False
    gone: list[Callable[[], None]] = field(default_factory=list)
    """Called when the process has been reaped."""


class Workers:
    """All workers of the box. ``on_lost`` is called with a worker that is gone, and what waited for it."""

    def __init__(
        self,
        loop: EventLoop,
        zygote: MessageConnection[Report],
        gauge: QueuedBytes,
        on_lost: Callable[[WorkerProcess, list[Waiting]], None],
    ) -> None:
        self._loop = loop
        self._zygote = zygote
        self._gauge = gauge
        self._on_lost = on_lost
        self.by_number: dict[int, WorkerProcess] = {}
        self._count = 0
        self._all_ended: deque[Callable[[bool], None]] = deque()

    def fork(self) -> WorkerProcess:
        """Return a new worker, which takes frames at once."""
        worker, theirs = self.prepare()
        self._zygote.send(ForkWorker(worker.number), (theirs,))
        return worker

    def prepare(self) -> tuple[WorkerProcess, socket.socket]:
        """Return the runner's side of a worker that another worker will fork, and that worker's socket."""
        ours, theirs = socket.socketpair()
        self._count += 1
        number = self._count
        connection = FrameConnection(
            self._loop,
            ours,
            self._gauge,
            lambda frame: self._answered(worker, frame),
            lambda: self._lose(worker),
        )
        worker = WorkerProcess(number, connection)
        self.by_number[number] = worker
        return worker, theirs

    def adopt(self, worker: WorkerProcess, pid: int) -> None:
        """Have the zygote take a copy, which a worker has made of itself, for this worker."""
        self._zygote.send(AdoptWorker(worker.number, pid))

    def submit(
        self,
        worker: WorkerProcess,
        frame: Frame,
        deadline_s: float,
        answer: Callable[[Frame], None],
        carried: tuple[socket.socket, ...] = (),
    ) -> None:
        """Send a frame; ``answer`` gets what the worker says, unless the worker is lost before."""
        worker.waiting.append(Waiting(frame, deadline_s, answer))
        if len(worker.waiting) == 1:
            self._start_clock(worker)
        worker.connection.send(frame, carried)

    def _start_clock(self, worker: WorkerProcess) -> None:
        if not worker.waiting:
            worker.deadline = worker.latest = worker.left_s = None
            return
        worker.deadline = time.monotonic() + worker.waiting[0].deadline_s
        worker.latest = worker.deadline + _LAUNCHER_S
        worker.left_s = None
        self._arm_earlier(worker, worker.deadline)

    def _move_deadline(self, worker: WorkerProcess, waits: bool) -> None:
        """Stop the clock of the oldest frame while its worker waits for the launcher, or let it go on."""
        if worker.deadline is None or worker.latest is None:
            return
        now = time.monotonic()
        if waits:
            # The timer that is set for the deadline finds that it has moved.
            worker.left_s = worker.deadline - now
            worker.deadline = worker.latest
        elif worker.left_s is not None:
            worker.deadline = min(worker.latest, now + worker.left_s)
            worker.left_s = None
            self._arm_earlier(worker, worker.deadline)

    def _arm_earlier(self, worker: WorkerProcess, when: float) -> None:
        if worker.armed is None or when < worker.armed:
            self._arm(worker, when)

    def _arm(self, worker: WorkerProcess, when: float) -> None:
        worker.armed = when
        self._loop.call_at(when, lambda: self._check_clock(worker, when))

    def _check_clock(self, worker: WorkerProcess, when: float) -> None:
        if worker.armed != when or worker.lost:
            return
        worker.armed = None
        if worker.deadline is None:
            return
        now = time.monotonic()
        if worker.deadline > now:
            self._arm(worker, worker.deadline)
        elif not worker.connection.reading:
            # Its answer may be there, unread because the host does not keep up: not the worker's fault.
            self._arm(worker, now + 0.5)
        else:
            worker.late = True
            self.end_worker(worker)

    def _answered(self, worker: WorkerProcess, frame: Frame) -> None:
        if frame.op is Op.EVENT:
            self._move_deadline(worker, frame.meta.get("event") == "waits")
            return
        # A worker answers in order. One that does not has lost its place, and no later answer can be trusted.
        if not worker.waiting or worker.waiting[0].frame.request_id != frame.request_id:
            self.end_worker(worker)
            return
        done = worker.waiting.popleft()
        self._start_clock(worker)
        done.answer(frame)

    def end_worker(self, worker: WorkerProcess, gone: Callable[[], None] | None = None) -> None:
        """Kill a worker; ``gone`` is called when no process of it is left. Idempotent."""
        if worker.number not in self.by_number:
            if gone is not None:
                gone()
            return
        if gone is not None:
            worker.gone.append(gone)
        worker.connection.close()
        self._lose(worker)

    def end_all(self, ended: Callable[[bool], None]) -> None:
        """Kill every worker; ``ended`` is told whether no process of one is left."""
        for worker in list(self.by_number.values()):
            worker.connection.close()
            self._lose(worker)
        self._all_ended.append(ended)
        self._zygote.send(EndAllWorkers())

    def _lose(self, worker: WorkerProcess) -> None:
        if worker.lost:
            return
        worker.lost = True
        waiting = list(worker.waiting)
        worker.waiting.clear()
        # A worker may close its connection and live on: kill it in any case.
        self._zygote.send(EndWorker(worker.number))
        self._on_lost(worker, waiting)

    def worker_gone(self, number: int) -> None:
        """Take note that the zygote has reaped a worker."""
        worker = self.by_number.pop(number, None)
        if worker is not None:
            # What it answered before it ended counts.
            worker.connection.drain()
            worker.connection.close()
            self._lose(worker)
            for action in worker.gone:
                action()

    def all_ended(self, clean: bool) -> None:
        """Take note that the zygote has killed all workers, or left some if not ``clean``."""
        self._all_ended.popleft()(clean)
