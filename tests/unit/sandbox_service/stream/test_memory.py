"""Freed memory is used again: large blocks cost no page faults after the first."""

from __future__ import annotations

import subprocess
import sys

_COUNT_FAULTS = """
import resource
from sandbox_service.stream.memory import keep_freed_memory

assert keep_freed_memory()
block = b"x" * 8_000_000
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    copy = b"".join((block, b"y"))
    del copy
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_a_large_block_is_where_the_one_before_was():
    told = subprocess.run([sys.executable, "-c", _COUNT_FAULTS], capture_output=True, text=True, check=True)
    first, *others = map(int, told.stdout.split())
    assert first > 1000
    assert max(others) < 100
