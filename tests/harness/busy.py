"""A processor that is busy for one box, and a box for which the machine is quiet, whatever else runs here."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from local_processes.prctl import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ON_A_BUSY_CPU", "ON_A_QUIET_CPU", "busy_cpu", "come_first", "on_the_busy_cpu"]

_BUSY_CPU = min(os.sched_getaffinity(0))
_PINNED = ("taskset", "-c", str(_BUSY_CPU))
ON_A_BUSY_CPU = _PINNED
"""Prefix of a command that gets at most a fifth of a processor while ``busy_cpu`` lasts."""
ON_A_QUIET_CPU = ("nice", "-n", "-20")
"""Prefix of a command that comes before all others; for root."""


@contextlib.contextmanager
def busy_cpu(others: int = 4) -> Iterator[None]:
    """Keep the processor of ``ON_A_BUSY_CPU`` busy with ``others``."""
    # In sessions of their own: kernels may share processors out by session first. They end with the
    # tests, which may be killed before the block is over.
    spin = [*_PINNED, "sh", "-c", "while :; do :; done"]
    spinners = [
        subprocess.Popen(spin, start_new_session=True, preexec_fn=end_with_parent) for _ in range(others)
    ]
    try:
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
        for spinner in spinners:
            spinner.wait()


@contextlib.contextmanager
def on_the_busy_cpu() -> Iterator[None]:
    """Start what is started by this thread on the processor that ``busy_cpu`` keeps busy."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {_BUSY_CPU})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def come_first(pid: int) -> None:
    """Put a process and its session before all others where the kernel shares out by session; for root."""
    with contextlib.suppress(FileNotFoundError):
        Path(f"/proc/{pid}/autogroup").write_text("-20")
