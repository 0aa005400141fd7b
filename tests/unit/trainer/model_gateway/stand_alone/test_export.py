"""Recordings are lines of a file, whatever an earlier process left behind in it."""

from pathlib import Path

from trainer.model_gateway.stand_alone.export import Export


async def test_a_line_that_a_killed_process_left_unfinished_is_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "sessions.jsonl"
    file.write_bytes(b'{"id":"first"}\n{"id":"torn","seq')
    export = Export(file)
    await export.append(b'{"id":"next"}')
    assert file.read_bytes() == b'{"id":"first"}\n{"id":"next"}\n'
    assert export.failed == 0
