"""A process beside a server for work that would hold its interpreter for long.

A call into C that parses megabytes lets no other thread run, so a thread keeps all other requests waiting
just as the event loop would. The process is started when it is first needed and ends with its owner. One
that does not answer in time is killed, and the next piece of work starts another.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .child_process import kill_process
from .work_messages import WorkMessage, receive, send

_T = TypeVar("_T")

_TRIES = 2
"""A process may have been killed while it was idle; work that ends two processes is at fault itself."""


class NotBegunError(TimeoutError):
    """The work waited for longer than its caller does, and was not begun."""


class WorkProcess:
    """Runs functions in a process of its own, one after another."""

    def __init__(
        self,
        name: str,
        timeout_s: float = 30.0,
        idle_s: float | None = None,
        wait_s: float | None = None,
    ) -> None:
        """``name`` is that of the thread which speaks to the process.

        The process ends when it had nothing to do for ``idle_s`` seconds; None to keep it. Work that has
        waited for others for longer than ``wait_s`` seconds is not begun.
        """
        self.timeout_s = timeout_s
        self._idle_s = idle_s
        self._wait_s = wait_s
        self._rest: asyncio.TimerHandle | None = None
        # One thread speaks to the process. It waits without the interpreter.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._child: _Child | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Return the process's id; None before the first work."""
        return None if self._child is None else self._child.process.pid

    async def run(self, function: Callable[..., _T], *arguments: object) -> _T:
        """Return ``function(*arguments)``. All of it must be picklable, errors included.

        Raises what the function raises, NotBegunError when it waited too long, TimeoutError when it takes too
        long, and RuntimeError when it ends the process.
        """
        loop = asyncio.get_running_loop()
        self._keep()
        asked = time.monotonic()
        try:
            return await loop.run_in_executor(self._thread, self._run, asked, function, arguments)
        finally:
            self._keep()
            if self._idle_s is not None and not self._closed:
                self._rest = loop.call_later(self._idle_s, self._thread.submit, self._end_child)

    def close(self) -> None:
        """End the process, after the work that it has begun. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._keep()
        self._thread.submit(self._end_child)
        self._thread.shutdown(wait=False)

    def _run(self, asked: float, function: Callable[..., _T], arguments: tuple[object, ...]) -> _T:
        if self._wait_s is not None and time.monotonic() - asked > self._wait_s:
            raise NotBegunError(f"the work was not begun within {self._wait_s:g} s")
        work = WorkMessage.of((function, arguments))
        for _ in range(_TRIES):
            child = self._child
            if child is None or child.process.poll() is not None:
                child = self._child = _Child()
            try:
                answered = child.exchange(work, self.timeout_s)
            except TimeoutError:
                self._drop(child)
                raise TimeoutError(f"the work was not done within {self.timeout_s:g} s") from None
            except (OSError, EOFError):
                self._drop(child)
                continue
            failed, result = answered.load()
            if failed:
                raise result
            answer: _T = result
            return answer
        raise RuntimeError(f"the work process ended {_TRIES} times over the same work")

    def _keep(self) -> None:
        """Do not end the process for the time that it had nothing to do."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _end_child(self) -> None:
        if self._child is not None:
            self._drop(self._child)

    def _drop(self, child: _Child) -> None:
        child.end()
        self._child = None


class _Child:
    """One process, and the socket to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "local_processes.work_main", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                # Ray extends the path of its workers without the environment.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        self._socket = ours
        # It ends by itself when the socket is closed, which the kernel does when the gateway is killed.
        self.end = weakref.finalize(self, _end, self.process, ours)

    def exchange(self, work: WorkMessage, timeout_s: float) -> WorkMessage:
        send(self._socket, work, timeout_s)
        return receive(self._socket, timeout_s)


def _end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    connection.close()
    kill_process(process)
