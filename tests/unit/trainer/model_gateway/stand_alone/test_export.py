"""Recordings are lines of a file, whatever an earlier process left behind in it."""

import os
import threading
from pathlib import Path

from trainer.model_gateway.stand_alone.export import Export


async def test_a_line_that_a_killed_process_left_unfinished_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "sessions.jsonl"
    file.write_bytes(b'{"id":"first"}\n{"id":"torn","seq')
    export = Export(file)
    await export.append(b'{"id":"next"}')
    assert file.read_bytes() == b'{"id":"first"}\n{"id":"next"}\n'
    assert export.failed == 0


async def test_a_whole_last_line_without_its_end_stays(tmp_path: Path) -> None:
    file = tmp_path / "sessions.jsonl"
    file.write_bytes(b'{"id":"first"}')
    await Export(file).append(b'{"id":"next"}')
    assert file.read_bytes() == b'{"id":"first"}\n{"id":"next"}\n'


async def test_recordings_go_into_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    opened = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    opened.start()
    with pipe.open("wb"):  # keeps the reader from seeing an end between two writers
        export = Export(pipe)
        await export.append(b'{"id":"first"}')
    opened.join(30)
    assert (read, export.failed) == ([b'{"id":"first"}\n'], 0)
