"""Locks of files that are taken at once or not at all."""

import os
from pathlib import Path

from local_processes.file_locks import lock_now


def test_a_file_is_locked_once_also_within_a_process_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    first, second, reader = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(3))
    assert (lock_now(first), lock_now(second), lock_now(first)) == (True, False, True)
    os.close(reader)
    assert not lock_now(second)
    os.close(first)
    assert lock_now(second)
    os.close(second)
