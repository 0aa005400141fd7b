"""Keep freed memory in a process that carries frames.

By default, the C library asks the kernel for each large block and gives it back at once. The kernel clears
the pages of a new block one by one as they are first touched, which takes six times as long as the copy of a
body into it, and the event loop waits for it.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_BLOCK_BYTES = 32 * 1024 * 1024
"""Blocks up to this size come from the heap; the C library takes no more."""
_KEPT_BYTES = 64 * 1024 * 1024
"""Free memory at the end of the heap that is kept."""


def keep_freed_memory() -> bool:
    """Use freed memory again for large blocks; return whether the C library can do so."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _BLOCK_BYTES) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))
