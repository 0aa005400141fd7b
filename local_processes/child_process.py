"""End a process that this one has started."""

from __future__ import annotations

import logging
import subprocess

logger = logging.getLogger(__name__)

_KILL_S = 10.0
"""Time for the process to end after SIGKILL."""


def end_process(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Ask a process that still runs to end, and kill it if it does not in time, or at a second Ctrl-C.

    One that is left after that, as in an uninterruptible sleep, is logged and left.
    """
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
        try:
            process.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            logger.error("still there %g s after SIGKILL, and left: process %d", _KILL_S, process.pid)
