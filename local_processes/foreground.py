"""Run a command in the foreground of a container or a unit, and prepare its end when a signal asks for it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Sequence

from .signals import Phase, SignalHandlers
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
            _end_session(child)


def _end_session(child: subprocess.Popen[bytes]) -> None:
    def is_over() -> bool:
        _reap_orphans(child.pid)
        child.poll()
        return not _signalled(child.pid, 0)

    _signalled(child.pid, signal.SIGTERM)
    if not wait_until(is_over, Deadline.after(_END_S)):
        _signalled(child.pid, signal.SIGKILL)
    child.wait()


def _signalled(group: int, number: int) -> bool:
    """Send a signal to a group of processes; return whether it has any."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _reap_orphans(child: int) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == child:
                return
            os.waitpid(ended.si_pid, 0)
