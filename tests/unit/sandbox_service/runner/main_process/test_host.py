"""The socket at which a runner is reached."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_service.runner.io.event_loop import EventLoop
from sandbox_service.runner.main_process.host import HostConnection


@contextlib.contextmanager
def reached_by_folder(folder: Path) -> Iterator[str]:
    """The path of a folder by a descriptor, which is short however deep the folder lies."""
    descriptor = os.open(folder, os.O_PATH)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("length", [1, 200], ids=["short", "long"])
def test_a_runner_is_reached_however_long_the_path_of_its_socket_is(tmp_path: Path, length: int) -> None:
    folder = tmp_path / ("x" * length)
    folder.mkdir()
    path = folder / "runner.sock"
    with reached_by_folder(folder) as short:
        with socket.socket(socket.AF_UNIX) as of_a_killed_runner:
            of_a_killed_runner.bind(f"{short}/runner.sock")
        connection = HostConnection(EventLoop(), str(path), print, print, print)
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(f"{short}/runner.sock")
        assert path.stat().st_mode & 0o777 == 0o660
        connection.close()
    assert not path.exists()
