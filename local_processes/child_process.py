"""End a process that this one has started."""

from __future__ import annotations

import subprocess

from .survivors import KILL_S, log_survivors


def end_process(process: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Ask a process that still runs to end, and kill it if it does not in time, or at a second Ctrl-C."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        kill_process(process)


def kill_process(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and reap it; one that survives that is logged and left."""
    process.kill()
    try:
        process.wait(KILL_S)
    except subprocess.TimeoutExpired:
        log_survivors([f"process {process.pid}"])
