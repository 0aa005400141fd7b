"""A folder belongs to one driver at a time, and what a killed driver left in shared memory is found.

The driver holds a lock on a file in the folder. The kernel lets go of it when the process ends, however it
ends, and other containers and machines that see the folder see the lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from trainer.errors import ConfigError
from trainer.published import PREFIX, clear, publications

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trainer.config import RunConfig

__all__ = ["claimed", "is_claimed", "publishing", "sweep"]

_LOCK = "driver.lock"


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold an existing folder while the block runs. Raises ConfigError when another process holds it."""
    with (folder / _LOCK).open("a") as lock:
        if not _taken(lock.fileno()):
            raise ConfigError(
                f"another process is at work in {folder}; end it first, or choose another name=..."
            )
        yield


def is_claimed(folder: Path) -> bool:
    """Whether a living process holds the folder."""
    try:
        with (folder / _LOCK).open() as lock:
            return not _taken(lock.fileno())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def publishing(config: RunConfig) -> Iterator[None]:
    """Have an empty folder for a run's weights, gone at the end; those of killed drivers go before."""
    folder = publications(config)
    sweep(folder.parent)
    clear(folder)
    folder.mkdir(parents=True)
    try:
        with claimed(folder):
            yield
    finally:
        clear(folder)


def sweep(base: Path) -> list[Path]:
    """Remove this user's folders of weights that no process holds; which ones."""
    swept = []
    for lock in base.glob(f"{PREFIX}*/{_LOCK}"):
        folder = lock.parent
        with contextlib.suppress(OSError):
            if lock.stat().st_uid == os.geteuid() and not is_claimed(folder):
                clear(folder)
                swept.append(folder)
    return swept


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
