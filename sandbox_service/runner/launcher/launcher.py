"""The launcher starts and kills agent processes, and cleans up behind them.

It is forked before the main process knows a task, so that its copies hold no secret, and it is the subreaper
of everything that agents fork. The main process asks it over one socket, the worker of each instance over
another, which acts on that instance only.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from sandbox_service.runner.config import RunnerConfig
from sandbox_service.runner.io.message_socket import receive, send
from sandbox_service.runner.io.sigchld import drain, sigchld_wakeup
from sandbox_service.runner.kernel import privileges
from sandbox_service.runner.kernel.pids_cgroup import make_group
from sandbox_service.runner.kernel.removal import MAX_LEFT
from sandbox_service.runner.messages.launcher import (
    REQUESTS,
    Cleaned,
    Configure,
    MarkClean,
    OpenInstance,
    ReleaseInstance,
    ResetBox,
)

from .ownership import Ownership
from .requests import RequestHandler

if TYPE_CHECKING:
    from sandbox_service.runner.messages.codec import RunnerMessage


_LONGEST_NAME = 700
"""Bytes of a path in a report, as JSON; the frame that brings the report to the host has room for 16 KiB."""


def run_launcher(upstream: socket.socket) -> None:
    """Serve until the main process is gone, then kill and clean up everything. Call it in a fork."""
    # Before the first child: orphans of earlier forks would go to the main process.
    privileges.become_reaper()
    # Ctrl-C and a closed terminal reach the whole group; the main process decides when the box ends.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    Launcher(upstream).run()


class Launcher:
    """The loop over requests of the main process and of workers, and over ended children."""

    def __init__(self, upstream: socket.socket) -> None:
        self._upstream = upstream
        self._selector = selectors.DefaultSelector()
        self._ownership: Ownership | None = None
        self._handlers: dict[int, RequestHandler] = {}
        self._running = True
        self._requests: dict[type[RunnerMessage], Callable[[Any, list[int]], None]] = {
            Configure: self._configure,
            MarkClean: self._mark_clean,
            OpenInstance: self._open,
            ReleaseInstance: self._release,
            ResetBox: self._reset,
        }

    def run(self) -> None:
        with sigchld_wakeup() as wake:
            self._selector.register(wake, selectors.EVENT_READ, wake)
            self._selector.register(self._upstream, selectors.EVENT_READ)
            while self._running:
                events = self._selector.select()
                # The main process first: its OpenInstance comes before any request of the instance's worker,
                # and a release before what the worker still asks for.
                self._receive_requests()
                for key, _ in events:
                    self._receive(key.data)
                self._settle()
        if self._ownership is not None:
            self._ownership.reset()

    def _receive(self, who: RequestHandler | int | None) -> None:
        if isinstance(who, int):
            drain(who)
        # It may have been closed by a request that came before it in the same round.
        elif who is not None and self._handlers.get(who.serial) is who and not who.receive_request():
            self._close(who.serial)

    def _settle(self) -> None:
        """Reap ended processes, kill what they left behind, and report them to their workers."""
        if self._ownership is None:
            return
        for process, code in self._ownership.collect():
            handler = self._handlers.get(process.serial)
            if handler is not None:
                handler.process_ended(process, code)

    def _receive_requests(self) -> None:
        while self._running:
            try:
                request, descriptors = receive(self._upstream, REQUESTS, wait=False)
            except BlockingIOError:
                return
            except (EOFError, OSError):
                self._running = False
                return
            self._requests[type(request)](request, descriptors)

    def _answer(self, request: int, left: list[str]) -> None:
        # Agents choose these paths. In full they could be longer than a message or frame may be, and an error
        # there would end the box with all its instances.
        named = [_shortened(name) for name in left[:MAX_LEFT]]
        with contextlib.suppress(OSError):
            send(self._upstream, Cleaned(request, named))

    @property
    def _configured(self) -> Ownership:
        assert self._ownership is not None, "the main process configures first"
        return self._ownership

    def _configure(self, request: Configure, _: list[int]) -> None:
        config = RunnerConfig.parse(request.config)
        if config.limits.pids_group is not None and config.limits.processes is not None:
            make_group(config.limits.pids_group, config.limits.processes)
        self._ownership = Ownership(config)

    def _mark_clean(self, _request: MarkClean, _: list[int]) -> None:
        self._configured.mark_clean()

    def _open(self, request: OpenInstance, descriptors: list[int]) -> None:
        control = socket.socket(fileno=descriptors[0])
        handler = RequestHandler(self._configured, request.serial, request.copy_of, control)
        self._handlers[request.serial] = handler
        self._selector.register(control, selectors.EVENT_READ, handler)

    def _release(self, request: ReleaseInstance, _: list[int]) -> None:
        self._close(request.serial)
        self._configured.release(request.serial, partial(self._answer, request.request))

    def _reset(self, request: ResetBox, _: list[int]) -> None:
        for serial in list(self._handlers):
            self._close(serial)
        self._answer(request.request, self._configured.reset())

    def _close(self, serial: int) -> None:
        """Hang up on an instance's worker; its processes stay until the release."""
        handler = self._handlers.pop(serial, None)
        if handler is not None:
            self._selector.unregister(handler.control)
            handler.close()


def _shortened(name: str) -> str:
    """Cut a name that is long as JSON, where a character takes up to twelve bytes."""
    return name if len(json.dumps(name)) <= _LONGEST_NAME else name[: _LONGEST_NAME // 12]
