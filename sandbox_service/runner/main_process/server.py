"""The runner proper: host on one side, launcher and zygote on the other, the box in between.

It does nothing until the first HELLO brings a configuration. It ends when told to, when launcher or zygote
are gone, or when no host has been there for too long; whatever the reason, nothing of the box outlives it.
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
from sandbox_service.runner.io.event_loop import Loop
from sandbox_service.runner.io.message_connection import MessageLink
from sandbox_service.runner.io.sigchld import drain, woken_by_children
from sandbox_service.runner.kernel import killing, privileges
from sandbox_service.runner.kernel.fork_exit import run_and_leave
from sandbox_service.runner.kernel.procfs import descendants, snapshot
from sandbox_service.runner.worker.zygote import run_zygote
from sandbox_service.wire.codes import BoxErrorCode
from sandbox_service.wire.frames import Frame, Op

from .host import Host
from .instances import Box
from .launcher_client import Agents

if TYPE_CHECKING:
    from sandbox_service.runner.io.message_socket import Message

__all__ = ["Server"]

_LONG_QUEUE = 16 * 1024 * 1024
"""Bytes that may wait in one direction before the other end is not read any more."""
_FIRST_ORPHAN_S = 120.0
"""How long a runner waits for its first HELLO."""


class Server:
    """One box's runner."""

    def __init__(self, path: str, launcher: socket.socket, launcher_pid: int) -> None:
        self._loop = Loop()
        self._host = Host(self._loop, path, self._frame, self._hello, self._host_left)
        self._agents = Agents(self._loop, launcher, self._end)
        self._pids = {launcher_pid: "launcher"}
        self._config: RunnerConfig | None = None
        self._zygote: MessageLink | None = None
        self._box: Box | None = None
        self._greetings: list[Frame] = []
        self._failure: str | None = None
        self._throttled = (False, False)

    def run(self) -> None:
        """Serve until the end, then see that nothing of the box is left."""
        with woken_by_children() as wake:
            self._loop.watch(wake, lambda: self._bury(wake))
            self._host_left()
            self._loop.run()
        self._host.close()
        self._agents.close()
        if self._zygote is not None:
            self._zygote.close()
        self._see_off()

    def _see_off(self) -> None:
        """Launcher and zygote clean up and leave by themselves; if not, we end what is below us."""
        deadline = time.monotonic() + 10
        while self._pids and time.monotonic() < deadline:
            killing.reap(self._forget)
            time.sleep(0.005)

        own = os.getpid()
        killing.end(lambda: descendants(snapshot(), [own]) - {own}, lambda: killing.reap(lambda *_: None))

    def _forget(self, pid: int, _code: int) -> None:
        self._pids.pop(pid, None)

    def _end(self) -> None:
        self._loop.stop()

    def _bury(self, wake: int) -> None:
        """Collect dead children, as PID 1 also those of others. No launcher or zygote, no box."""
        drain(wake)

        def note(pid: int, _code: int) -> None:
            if self._pids.pop(pid, None) is not None:
                self._end()

        killing.reap(note)

    def _host_left(self) -> None:
        """End the box if no host comes back for too long."""
        patience = self._config.orphan_timeout_s if self._config is not None else _FIRST_ORPHAN_S
        left = self._host.away_since

        def look() -> None:
            if left is not None and self._host.away_since == left:
                self._end()

        self._loop.call_at(time.monotonic() + patience, look)

    def _hello(self, frame: Frame) -> None:
        self._greetings.append(frame)
        if self._config is None and self._failure is None:
            try:
                self._configure(json.loads(frame.body))
            except (ValueError, TypeError, KeyError, OSError) as error:
                self._failure = f"the configuration does not fit: {error}"
        self._greet()

    def _greet(self) -> None:
        """Answer who has said HELLO, if we can already."""
        if self._box is None and self._failure is None:
            return
        for frame in self._greetings:
            if self._failure is not None:
                self._host.greet(frame.error(BoxErrorCode.SANDBOX_FAILED, self._failure))
            else:
                self._host.greet(frame.reply())
        self._greetings.clear()

    def _configure(self, values: Message) -> None:
        config = RunnerConfig.parse(values)
        if config.drop_uids and os.geteuid() != 0:
            raise ValueError("drop_uids needs root")
        os.makedirs(config.workspace_root, exist_ok=True)  # noqa: PTH103
        if os.getpid() != 1:
            # Instances make their own directories there; without user ids nobody else may.
            os.chmod(config.workspace_root, 0o1777 if config.drop_uids else 0o700)  # noqa: PTH101
        self._config = config
        self._host.refused_uids = range(config.uid_base, config.uid_base + config.uid_count)
        self._agents.configure(asdict(config))
        ours, theirs = message_socket.pair()
        pid = os.fork()
        if pid == 0:
            run_and_leave(lambda: _become_zygote(theirs, config))
        theirs.close()
        self._pids[pid] = "zygote"
        self._zygote = MessageLink(self._loop, ours, self._heard_zygote, self._end)

    def _heard_zygote(self, message: Message) -> None:
        if self._box is not None:
            self._box.workers.heard(message)
            return
        assert self._config is not None, "there is no zygote before it"
        assert self._zygote is not None, "it has just been heard"
        if "ready" in message:
            self._agents.mark_clean()
            self._box = Box(self._loop, self._config, self._zygote, self._agents, self._pids, self._host.send)
        else:
            self._failure = str(message["failed"])
        self._greet()

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
        self._balance()

    def _answer(self, frame: Frame) -> None:
        self._host.send(frame)
        self._balance()

    def _balance(self) -> None:
        """While one side does not keep up, the other is not read."""
        if self._box is None:
            return
        wanted = (self._box.gauge.bytes > _LONG_QUEUE, self._host.queued > _LONG_QUEUE)
        if wanted != self._throttled:
            self._throttled = wanted
            self._host.pause(wanted[0])
            for worker in self._box.workers.by_number.values():
                worker.link.pause(wanted[1])
            if any(wanted):
                self._loop.call_at(time.monotonic() + 0.01, self._rebalance)

    def _rebalance(self) -> None:
        self._balance()
        if any(self._throttled):
            self._loop.call_at(time.monotonic() + 0.01, self._rebalance)


def _become_zygote(upstream: socket.socket, config: RunnerConfig) -> None:
    os.dup2(upstream.fileno(), 3, inheritable=False)
    privileges.close_all_but(4)
    run_zygote(socket.socket(fileno=3), config)
