"""End a process that this one has started."""

from __future__ import annotations

import subprocess


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
        process.kill()
        process.wait(timeout_s)
