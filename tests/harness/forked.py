"""A check that a fork of the test's process makes."""

import os
from collections.abc import Callable


def holds_in_fork(check: Callable[[], bool]) -> bool:
    """Return what ``check`` returns in a forked process; False if it raises."""
    child = os.fork()
    if child == 0:
        held = False
        try:
            held = check()
        finally:
            os._exit(0 if held else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
