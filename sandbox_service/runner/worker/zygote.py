"""The zygote: imports the world once, keeps it warm and frozen, and forks workers from it.

It runs as the environment's user id, is the reaper of all workers, and does nothing else, so that it always
answers. The runner names workers by number; the zygote alone knows that a process id is still theirs.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sandbox_service.runner.io.message_socket import receive, send
from sandbox_service.runner.io.sigchld import drain, sigchld_wakeup
from sandbox_service.runner.kernel import killing, privileges
from sandbox_service.runner.kernel.confinement import confine
from sandbox_service.runner.kernel.fork_exit import run_and_exit
from sandbox_service.runner.kernel.loopback import bring_up_loopback
from sandbox_service.runner.kernel.procfs import descendants, has_children, look_up, snapshot, tree
from sandbox_service.runner.messages.zygote import (
    REQUESTS,
    AdoptWorker,
    AllEnded,
    EndAllWorkers,
    EndWorker,
    ForkWorker,
    WorkerGone,
    WorldFailed,
    WorldReady,
)

from .worker import Worker

if TYPE_CHECKING:
    from sandbox_service.runner.config import RunnerConfig
    from sandbox_service.runner.messages.codec import RunnerMessage
    from sandbox_service.runner.world import World


def run_zygote(upstream: socket.socket, config: RunnerConfig) -> None:
    """Import the world, report it, and fork workers until the main process is gone. Call it in a fork."""
    privileges.become_reaper()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Until the loop below, children are those of imports that run a program.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if not config.agent_code:
        # Before the change of user id, which takes the right to.
        bring_up_loopback()
    if config.drop_uids:
        groups = (config.env_group,) if config.env_group else ()
        privileges.become(privileges.Identity.of(config.env_uid), groups)
    # Before the filter, which the kernel takes only from a process that can gain no privileges; and after the
    # change of user id, which makes a process dumpable again (PR_SET_DUMPABLE in prctl(2)).
    privileges.refuse_new_privileges()
    privileges.be_undumpable()
    if config.system_calls:
        confine(config.filter)
    try:
        if config.packages is not None:
            # After our own code and before the box's: its interpreter may have packages of the same names.
            sys.path.insert(1, config.packages)
        module = importlib.import_module(config.world_module)
        world_class: type[World] = module.WORLD
        warm: Callable[[str | None], None] | None = getattr(module, "warm", None)
        if warm is not None:
            warm(config.data)
    except Exception as error:  # noqa: BLE001  # the capture point of an environment's import
        sys.__excepthook__(type(error), error, error.__traceback__)
        detail = f"{config.world_module}: {type(error).__name__}: {error}"[:500]
        send(upstream, WorldFailed(detail))
        return
    gc.collect()
    gc.freeze()
    send(upstream, WorldReady())
    Zygote(upstream, world_class, config).run()


class Zygote:
    """Forks, adopts and ends workers."""

    def __init__(self, upstream: socket.socket, world_class: type[World], config: RunnerConfig) -> None:
        self._upstream = upstream
        self._world_class = world_class
        self._config = config
        self._workers: dict[int, int] = {}
        self._selector = selectors.DefaultSelector()
        self._handlers: dict[type[RunnerMessage], Callable[[Any, list[int]], None]] = {
            ForkWorker: self._fork,
            AdoptWorker: self._adopt,
            EndWorker: self._end,
            EndAllWorkers: self._answer_end_all,
        }

    def run(self) -> None:
        with sigchld_wakeup() as wake:
            self._selector.register(wake, selectors.EVENT_READ)
            self._selector.register(self._upstream, selectors.EVENT_READ)
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj == wake:
                        drain(wake)
                    elif not self._receive():
                        self._end_all()
                        return
                self._reap()

    def _reap(self) -> None:
        killing.reap(self._note)

    def _note(self, pid: int, _code: int) -> None:
        for number, worker in list(self._workers.items()):
            if worker == pid:
                del self._workers[number]
                self._send(WorkerGone(number))

    def _send(self, message: RunnerMessage) -> None:
        try:
            send(self._upstream, message)
        except OSError:
            return

    def _receive(self) -> bool:
        while True:
            try:
                request, descriptors = receive(self._upstream, REQUESTS, wait=False)
            except BlockingIOError:
                return True
            except (EOFError, OSError):
                return False
            self._handlers[type(request)](request, descriptors)

    def _fork(self, request: ForkWorker, descriptors: list[int]) -> None:
        number, [descriptor] = request.worker, descriptors
        try:
            pid = os.fork()
        except OSError:
            os.close(descriptor)
            self._send(WorkerGone(number))
            return
        if pid == 0:
            run_and_exit(lambda: self._become_worker(descriptor))
        os.close(descriptor)
        self._workers[number] = pid

    def _become_worker(self, descriptor: int) -> None:
        privileges.die_with_parent()
        # Before a world starts a program: its end would write into the zygote's pipe and wake the zygote.
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        self._upstream.close()
        # Few collections: what a fork does not touch it shares with the zygote.
        gc.set_threshold(50_000, 20, 50)
        Worker(socket.socket(fileno=descriptor), self._world_class, self._config).run()

    def _adopt(self, request: AdoptWorker, _: list[int]) -> None:
        """Take a copy that a worker made of itself for a worker."""
        number, pid = request.worker, request.pid
        # A worker names the pid. Only a child's is safe to kill by later: none other gets it before a reap.
        process = look_up(pid)
        if process is not None and process.parent == os.getpid():
            self._workers[number] = pid
        else:
            self._send(WorkerGone(number))

    def _end(self, request: EndWorker, _: list[int]) -> None:
        number = request.worker
        pid = self._workers.get(number)
        if pid is None:
            self._send(WorkerGone(number))
            return

        # Stop it first, so that it forks no more. Most have no children and need no look at the process
        # table.
        os.kill(pid, signal.SIGSTOP)
        below = descendants(snapshot(), [pid]) if has_children(pid) else {pid}
        for each in below:
            with contextlib.suppress(OSError):
                os.kill(each, signal.SIGKILL)

    def _answer_end_all(self, _request: EndAllWorkers, _: list[int]) -> None:
        self._send(AllEnded(self._end_all()))

    def _end_all(self) -> bool:
        """Kill all descendants. Orphans become children of the zygote: when it has none, nothing is left."""
        own = os.getpid()
        return killing.end(lambda: tree([own]) - {own}, self._reap)
