"""The main process: serves the host, with the launcher and the zygote as its children.

It does nothing until the first HELLO brings a configuration. It ends on SHUTDOWN, when launcher or zygote has
ended, or when no host has been connected for too long. Whatever the reason, no process of the box outlives
it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from sandbox_service.runner.config import RunnerConfig
from sandbox_service.runner.io import message_socket
from sandbox_service.runner.io.event_loop import EventLoop
from sandbox_service.runner.io.message_connection import MessageConnection
from sandbox_service.runner.io.sigchld import drain, sigchld_wakeup
from sandbox_service.runner.kernel import killing, privileges
from sandbox_service.runner.kernel.fork_exit import run_and_exit
from sandbox_service.runner.kernel.procfs import descendants, snapshot
from sandbox_service.runner.messages import zygote
from sandbox_service.runner.worker.zygote import run_zygote
from sandbox_service.wire.codes import BoxErrorCode
from sandbox_service.wire.frames import Frame, Op

from .host import HostConnection
from .instances import BoxInstances
from .launcher_client import LauncherClient

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject


_LONG_QUEUE = 16 * 1024 * 1024
"""Bytes that may wait in one direction before the other end is no longer read."""
_FIRST_ORPHAN_S = 120.0
"""Longest time for which a runner waits for its first HELLO."""


class Server:
    """One box's runner."""

    def __init__(self, path: str, launcher: socket.socket, launcher_pid: int) -> None:
        self._loop = EventLoop()
        self._host = HostConnection(self._loop, path, self._frame, self._hello, self._host_left)
        self._launcher = LauncherClient(self._loop, launcher, self._end)
        self._pids = {launcher_pid: "launcher"}
        self._config: RunnerConfig | None = None
        self._zygote: MessageConnection[zygote.Report] | None = None
        self._box: BoxInstances | None = None
        self._hellos: list[Frame] = []
        self._failure: str | None = None
        self._throttled = (False, False)

    def run(self) -> None:
        """Serve until the end, then kill what is left of the box."""
        with sigchld_wakeup() as wake:
            self._loop.watch(wake, lambda: self._reap_children(wake))
            self._host_left()
            self._loop.run()
        self._host.close()
        self._launcher.close()
        if self._zygote is not None:
            self._zygote.close()
        self._end_processes()

    def _end_processes(self) -> None:
        """Wait for launcher and zygote to clean up and exit; kill them and all descendants if they do not."""
        deadline = time.monotonic() + 10
        while self._pids and time.monotonic() < deadline:
            killing.reap(self._collected)
            time.sleep(0.005)

        own = os.getpid()
        killing.end(lambda: descendants(snapshot(), [own]) - {own}, lambda: killing.reap(lambda *_: None))

    def _collected(self, pid: int, _code: int) -> None:
        self._pids.pop(pid, None)

    def _end(self) -> None:
        self._loop.stop()

    def _reap_children(self, wake: int) -> None:
        """Reap ended children, as PID 1 also orphans. Without launcher or zygote the box ends."""
        drain(wake)

        def note(pid: int, _code: int) -> None:
            if self._pids.pop(pid, None) is not None:
                self._end()

        killing.reap(note)

    def _host_left(self) -> None:
        """End the box if no host comes back for too long."""
        timeout_s = self._config.orphan_timeout_s if self._config is not None else _FIRST_ORPHAN_S
        left = self._host.away_since

        def look() -> None:
            if left is not None and self._host.away_since == left:
                self._end()

        self._loop.call_at(time.monotonic() + timeout_s, look)

    def _hello(self, frame: Frame) -> None:
        self._hellos.append(frame)
        if self._config is None and self._failure is None:
            try:
                self._configure(json.loads(frame.body))
            except (ValueError, TypeError, KeyError, OSError) as error:
                self._failure = f"the configuration does not fit: {error}"
        self._answer_hellos()

    def _answer_hellos(self) -> None:
        """Answer the hosts that have sent HELLO, once the box is ready or has failed."""
        if self._box is None and self._failure is None:
            return
        for frame in self._hellos:
            if self._failure is not None:
                self._host.answer_hello(frame.error(BoxErrorCode.SANDBOX_FAILED, self._failure))
            else:
                self._host.answer_hello(frame.reply())
        self._hellos.clear()

    def _configure(self, values: JsonObject) -> None:
        config = RunnerConfig.parse(values)
        if config.drop_uids and os.geteuid() != 0:
            raise ValueError("drop_uids needs root")
        os.makedirs(config.workspace_root, exist_ok=True)  # noqa: PTH103
        if os.getpid() != 1:
            # Instances make their own directories there; without user ids nobody else may.
            os.chmod(config.workspace_root, 0o1777 if config.drop_uids else 0o700)  # noqa: PTH101
        self._config = config
        self._host.refused_uids = range(config.uid_base, config.uid_base + config.uid_count)
        self._launcher.configure(asdict(config))
        ours, theirs = message_socket.pair()
        pid = os.fork()
        if pid == 0:
            run_and_exit(lambda: _become_zygote(theirs, config))
        theirs.close()
        self._pids[pid] = "zygote"
        self._zygote = MessageConnection(self._loop, ours, zygote.REPORTS, self._zygote_message, self._end)

    def _zygote_message(self, message: zygote.Report) -> None:
        match message:
            case zygote.WorldReady():
                self._open_box()
            case zygote.WorldFailed(detail):
                self._failure = detail
                self._answer_hellos()
            case zygote.WorkerGone(worker):
                if self._box is not None:
                    self._box.workers.worker_gone(worker)
            case zygote.AllEnded(clean):
                if self._box is not None:
                    self._box.workers.all_ended(clean)

    def _open_box(self) -> None:
        """Take instances: the world is imported."""
        assert self._config is not None, "the zygote is forked with a configuration"
        assert self._zygote is not None, "the zygote has just reported"
        # What the import left in shared directories is the world's. Before the first instance, whose agent
        # could add to it.
        self._launcher.mark_clean()
        self._box = BoxInstances(
            self._loop, self._config, self._zygote, self._launcher, self._pids, self._host.send
        )
        self._answer_hellos()

    def _frame(self, frame: Frame) -> None:
        if frame.op is Op.SHUTDOWN:
            self._host.send(frame.reply())
            self._end()
        elif self._box is None:
            self._host.send(frame.error(BoxErrorCode.SANDBOX_FAILED, self._failure or "the box is not ready"))
        else:
            try:
                self._box.handle(frame, self._answer)
            except (KeyError, TypeError, ValueError) as error:
                detail = f"the frame's meta does not fit: {type(error).__name__}"
                self._answer(frame.error(BoxErrorCode.INVALID_REQUEST, detail))
            except OSError as error:
                # Such as no descriptor for another worker: the instances that there are go on.
                detail = f"the box cannot do it now: {error.strerror}"
                self._answer(frame.error(BoxErrorCode.SANDBOX_FAILED, detail))
        self._balance()

    def _answer(self, frame: Frame) -> None:
        self._host.send(frame)
        self._balance()

    def _balance(self) -> None:
        """Stop reading one side while the other does not keep up."""
        if self._box is None:
            return
        wanted = (self._box.gauge.bytes > _LONG_QUEUE, self._host.queued > _LONG_QUEUE)
        if wanted != self._throttled:
            self._throttled = wanted
            self._host.pause(wanted[0])
            for worker in self._box.workers.by_number.values():
                worker.connection.pause(wanted[1])
            if any(wanted):
                self._loop.call_at(time.monotonic() + 0.01, self._rebalance)

    def _rebalance(self) -> None:
        self._balance()
        if any(self._throttled):
            self._loop.call_at(time.monotonic() + 0.01, self._rebalance)


def _become_zygote(upstream: socket.socket, config: RunnerConfig) -> None:
    # An environment's code runs here: without the host's connection, and without the launcher's, over which
    # any process could be started and any instance released.
    os.dup2(upstream.fileno(), 3, inheritable=False)
    privileges.close_all_but(4)
    run_zygote(socket.socket(fileno=3), config)
