"""Cleanup in children of the launcher, so that the launcher goes on meanwhile.

A cleanup takes as long as an agent made it take, up to a deadline. The child leaves a list of what it could
not remove, which the launcher reads when it reaps the child.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from sandbox_service.runner.kernel import privileges

_LONGEST_S = 90
"""Limit of real time; the removals within it have shorter ones."""


@dataclass(frozen=True, slots=True)
class _CleanupProcess:
    what: str
    report: int
    done: Callable[[list[str]], None]


class CleanupProcesses:
    """The cleanups that are under way, by pid."""

    def __init__(self) -> None:
        self._running: dict[int, _CleanupProcess] = {}

    @property
    def pids(self) -> set[int]:
        """The pids of the children."""
        return set(self._running)

    def run(
        self,
        what: str,
        work: Callable[[], list[str]],
        done: Callable[[list[str]], None],
        handed_over: int | None = None,
    ) -> None:
        """Have a child do ``work``; ``done`` gets what the child says is left, or ``what`` when it failed.

        The child begins when it alone holds the descriptor ``handed_over``: the kernel frees a mount
        namespace in the process that closes it last, and that may take long.
        """
        report = os.memfd_create("report")
        begin, waiting = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(report)
            done([what])
        else:
            if pid == 0:
                _serve(work, begin, waiting, report)
            self._running[pid] = _CleanupProcess(what, report, done)
        finally:
            if handed_over is not None:
                os.close(handed_over)
            os.close(waiting)
            os.close(begin)

    def process_ended(self, pid: int, code: int) -> bool:
        """Take note that a child has ended; False when it was no cleanup."""
        running = self._running.pop(pid, None)
        if running is None:
            return False
        size = os.fstat(running.report).st_size
        left = json.loads(os.pread(running.report, size, 0)) if code == 0 else [running.what]
        os.close(running.report)
        running.done(left)
        return True

    def await_all(self, reap: Callable[[], None]) -> None:
        """Wait for all of them; each has its deadline."""
        while self._running:
            reap()
            time.sleep(0.0005)


def _serve(work: Callable[[], list[str]], begin: int, waiting: int, report: int) -> None:
    """Do the work in the child, and exit."""
    code = 1
    try:
        privileges.die_with_parent()
        # The launcher ignores SIGTERM and handles SIGCHLD. SIGALRM keeps its default action, which ends this
        # process in the middle of any call; a Python handler would wait for the call to return.
        privileges.reset_signals()
        signal.alarm(_LONGEST_S)
        # End of file comes when the launcher closes its end, after it closed ``handed_over``. Our own copy of
        # the writing end must be closed, or it never comes.
        os.close(waiting)
        os.read(begin, 1)
        left = work()
        os.write(report, json.dumps(left).encode())
        code = 0
    finally:
        os._exit(code)
