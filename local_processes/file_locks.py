"""Lock files among processes, in such a way that the kernel unlocks them when a process ends."""

from __future__ import annotations

import fcntl


def lock_now(descriptor: int) -> bool:
    """Lock an open file for this process alone, without waiting; return False while another one has it.

    Raises OSError where the file system has no locks. The lock lasts until the description is closed that was
    opened here. ``lockf`` would not do: its record lock ends when this process closes any descriptor of the
    file, and does not exclude a second use by the same process.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
