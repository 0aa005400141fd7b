"""The launcher: makes and ends agent processes, and cleans up behind them.

It is forked before the runner knows a task, stays small and pristine, and is the reaper of everything that
agents fork off. Workers speak with it over one control socket an instance, the runner over another; neither
can make it act on an instance that is not theirs.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
from functools import partial

from sandbox_service.runner.config import RunnerConfig
from sandbox_service.runner.io.message_socket import Message, receive, send
from sandbox_service.runner.io.sigchld import drain, woken_by_children
from sandbox_service.runner.kernel import privileges

from .ownership import Premises
from .requests import Desk

__all__ = ["run_launcher"]


def run_launcher(upstream: socket.socket) -> None:
    """Serve until the runner is gone, then end and clean up everything. Called in a fork of its own."""
    privileges.become_reaper()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    Launcher(upstream).run()


class Launcher:
    """The loop: messages of the runner and of workers, and the deaths of children."""

    def __init__(self, upstream: socket.socket) -> None:
        self._upstream = upstream
        self._selector = selectors.DefaultSelector()
        self._premises: Premises | None = None
        self._desks: dict[int, Desk] = {}
        self._running = True

    def run(self) -> None:
        with woken_by_children() as wake:
            self._selector.register(wake, selectors.EVENT_READ, wake)
            self._selector.register(self._upstream, selectors.EVENT_READ)
            while self._running:
                events = self._selector.select()
                # The runner first: it announces an instance before its worker can ask for anything.
                self._hear_runner()
                for key, _ in events:
                    self._hear(key.data)
                self._settle()
        if self._premises is not None:
            self._premises.reset()

    def _hear(self, who: Desk | int | None) -> None:
        if isinstance(who, int):
            drain(who)
        # A desk may have been closed by what came before it in the same round.
        elif who is not None and self._desks.get(who.serial) is who and not who.hear():
            self._close(who.serial)

    def _settle(self) -> None:
        """Collect the dead, end what they left behind, and tell those who wait for them."""
        if self._premises is None:
            return
        for root, code in self._premises.collect():
            desk = self._desks.get(root.serial)
            if desk is not None:
                desk.root_ended(root, code)

    def _hear_runner(self) -> None:
        while self._running:
            try:
                message, descriptors = receive(self._upstream, wait=False)
            except BlockingIOError:
                return
            except (EOFError, OSError):
                self._running = False
                return
            self._do(message, descriptors)

    def _answer(self, message: Message, left: list[str]) -> None:
        with contextlib.suppress(OSError):
            send(self._upstream, {"clean": not left, "left": left, "request": message.get("request")})

    def _do(self, message: Message, descriptors: list[int]) -> None:
        if message["do"] == "configure":
            config = RunnerConfig.parse(message["config"])
            self._premises = Premises(config)
            return
        assert self._premises is not None, "the runner configures first"
        if message["do"] == "mark":
            self._premises.mark_clean()
        elif message["do"] == "open":
            self._open(message, socket.socket(fileno=descriptors[0]))
        elif message["do"] == "release":
            serial = int(message["serial"])
            self._close(serial)
            self._premises.release(serial, partial(self._answer, message))
        else:
            for serial in list(self._desks):
                self._close(serial)
            self._answer(message, self._premises.reset())

    def _open(self, message: Message, control: socket.socket) -> None:
        assert self._premises is not None, "the runner configures first"
        serial = int(message["serial"])
        desk = Desk(self._premises, serial, message.get("copy_of"), control)
        self._desks[serial] = desk
        self._selector.register(control, selectors.EVENT_READ, desk)

    def _close(self, serial: int) -> None:
        """Hang up on an instance's worker; its processes stay until the release."""
        desk = self._desks.pop(serial, None)
        if desk is not None:
            self._selector.unregister(desk.control)
            desk.close()
