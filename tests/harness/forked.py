"""Checks that a fork of the test's process makes."""

import os
from collections.abc import Callable

_NOBODY = 65_534


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


def holds_without_root(check: Callable[[], bool]) -> bool:
    """Return what ``check`` returns in a forked process without root's rights; False if it raises."""

    def check_without_root() -> bool:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)
        return check()

    return holds_in_fork(check_without_root)
