"""Kill, stop and resume processes that resist, by user id or by tree, and verify that none is left.

Two ways. *By user id*: a child that has taken the id signals all its processes, which the kernel does
atomically, so that no fork outruns it. *By tree*: stop everything below some roots, look again until nothing
new turns up, then kill. The first is only for ids that belong to one instance and to nothing else on the
machine; root's id and the caller's own are refused.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from .privileges import Identity, become
from .procfs import is_stopped, snapshot

_TIMEOUT_S = 8.0
"""Killed processes are gone in milliseconds, unless the machine is very busy or the kernel is stuck."""


def run_as(identity: Identity | None, action: Callable[[], None]) -> int:
    """Run ``action`` in a forked child of other user ids and wait for it; its exit status, 0 for success.

    Raises OSError when no process can be made.
    """
    pid = os.fork()
    if pid == 0:
        # Ends in any case with os._exit: an exception that left this block would run the caller's loop twice.
        code = 1
        try:
            if identity is not None:
                become(identity)
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def signal_uid(uid: int, sweeper: int, number: signal.Signals) -> bool:
    """Signal every process of ``uid`` at once; return False when that was not possible.

    The child's real user id is ``sweeper``: it may signal the agent, the agent may not signal it. No other
    process may have that id, since the kernel lets the child signal its like, too.
    """
    if uid in (0, *os.getresuid()) or sweeper in (0, uid):
        raise ValueError(f"user id {uid} is not an instance's")

    def send() -> None:
        # kill(2): -1 is every process that the caller may signal, but itself. The kernel holds the lock of
        # the process table meanwhile, and a fork that it interrupts starts again after the signal.
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)

    try:
        return run_as(Identity(effective=uid, real=sweeper), send) == 0
    except OSError:
        return False


def holders(uids: set[int]) -> Callable[[], set[int]]:
    """Return a function that finds the processes that hold any of these user ids."""
    return lambda: {process.pid for process in snapshot().values() if not process.uids.isdisjoint(uids)}


def signal_all(look: Callable[[], set[int]], number: signal.Signals) -> None:
    """Stop or resume what ``look`` finds; for processes that share a user id with others."""
    targets = _stop_all(look)
    if number != signal.SIGSTOP:
        for pid in targets:
            with contextlib.suppress(OSError):
                os.kill(pid, number)


def await_stopped(look: Callable[[], set[int]]) -> bool:
    """Wait until no thread of what ``look`` finds runs any more: a stop takes effect a moment later."""
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        if all(map(is_stopped, look())):
            return True
        time.sleep(0.0005)
    return False


def end(look: Callable[[], set[int]], reaped: Callable[[], None]) -> bool:
    """Stop, then kill what ``look`` finds, until it finds nothing; False when something is left.

    ``reaped`` is called in between, to collect the dead among our own children.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    pause = 0.0
    while True:
        # First: /proc names the dead until they are reaped, and they would be found for ever.
        reaped()
        targets = _stop_all(look)
        if not targets:
            return True
        for pid in targets:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(0.02, pause + 0.0005)


def _stop_all(look: Callable[[], set[int]]) -> set[int]:
    """Stop what ``look`` finds until it finds nothing new; the kill that follows misses nothing then."""
    # Stopped parents neither fork nor reap. So every id still means the process that was found when the kill
    # comes, which is not so for a kill without a stop: a parent could reap, and the id pass to a bystander.
    stopped: set[int] = set()
    for _ in range(64):
        targets = look()
        new = targets - stopped
        if not new:
            return targets
        for pid in new:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGSTOP)
        stopped |= new
    return look()


def reap(note: Callable[[int, int], None]) -> None:
    """Collect all dead children; call ``note`` with pid and exit code (negative: the signal)."""
    # Until there is none: one pending SIGCHLD stands for any number of ended children (signal(7)).
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        note(pid, os.waitstatus_to_exitcode(status))
