"""End a model process when its parent process ends, for whatever reason."""

from __future__ import annotations

import multiprocessing
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess


EXIT_STATUS = 70


def end_with_parent() -> None:
    """Watch the parent from now on; do nothing in a process that ``multiprocessing`` did not start."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end, args=(parent,), name="parent", daemon=True).start()


def _end(parent: BaseProcess) -> None:
    parent.join()  # returns at its death: the operating system closes the pipe that it holds
    os._exit(EXIT_STATUS)
