"""Run a command in the foreground of a container or a unit, and prepare its end when a signal asks for it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence

import psutil

from .process_tree import is_dead, processes
from .signals import Phase, SignalHandlers
from .survivors import KILL_S, log_survivors
from .waiting import Deadline, wait_until

_POLL_S = 0.5
_END_S = 20.0
"""Time for the command to end after SIGTERM."""


def run_until_stopped(command: Sequence[str], before_end: Callable[[], None]) -> int:
    """Run a command until it exits, or this process gets SIGINT or SIGTERM; return the exit code.

    After a signal, ``before_end`` runs while the command still works; then all processes of the command's
    session get SIGTERM, and those that are left after 20 s SIGKILL. Processes that the kernel hands over to
    this one, as it does to the first of a container, are reaped. Raises OSError if the command cannot start.
    """
    handlers = SignalHandlers()
    with handlers.open():
        handlers.enter(Phase.RUNNING)
        # In a session of its own, so that Ctrl-C does not reach it before it has been prepared.
        child = subprocess.Popen(command, start_new_session=True)
        try:
            while not handlers.stopping.wait_for_request(_POLL_S):
                _reap_orphans(child.pid)
                if (code := child.poll()) is not None:
                    return code if code >= 0 else 128 - code
            handlers.enter(Phase.STOPPING)
            before_end()
            return 0
        finally:
            end_session(child)


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a group of processes; return whether it has any."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def end_session(
    child: subprocess.Popen[bytes],
    send: Callable[[int, int], bool] = signal_group,
    *,
    end_s: float = _END_S,
    kill_s: float = KILL_S,
) -> None:
    """Have all processes of a session end with SIGTERM, and those that are left after ``end_s`` with SIGKILL.

    Those that are left ``kill_s`` seconds later, as in an uninterruptible sleep, are logged and left.
    """

    def is_over() -> bool:
        _reap_orphans(child.pid)
        child.poll()
        return not send(child.pid, 0)

    send(child.pid, signal.SIGTERM)
    if wait_until(is_over, Deadline.after(end_s)):
        return
    send(child.pid, signal.SIGKILL)
    if not wait_until(is_over, Deadline.after(kill_s)) and (left := list(_names_in(child.pid))):
        log_survivors(left, kill_s)


def _names_in(group: int) -> Iterator[str]:
    for process in processes():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == group and not is_dead(process):
                yield f"{process.name()} ({process.pid})"


def _reap_orphans(child: int) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == child:
                return
            os.waitpid(ended.si_pid, 0)
