"""Find shared libraries, which some packages link and no wheel brings."""

import ctypes

NUMA = "libnuma.so.1"
"""vLLM's build for CPUs links it."""
NUMA_PACKAGES = "libnuma1 (Debian, Ubuntu) or numactl-libs (Fedora, RHEL)"
"""Packages that bring it."""


def is_loadable(library: str) -> bool:
    """Whether the dynamic loader finds a shared library."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
