"""End a command whose output finds no space with a message in place of a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def explaining_full_disks(explain: Callable[[str], int]) -> Iterator[None]:
    """End the program if there is no space for its output.

    Args:
        explain: reports the sentence and returns the exit code.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        code = explain(f"cannot write {error.filename or 'the output'}: {error.strerror}")
        # What is left in the buffer would fail once more at the interpreter's exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(code)
