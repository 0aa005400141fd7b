"""The end of a file whose writer was killed."""

from pathlib import Path

import pytest

from trainer.appended_lines import cut_torn_line

_LONG = b"x" * 150_000


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (b"", b""),
        (b"one\n", b"one\n"),
        (b"one\ntw", b"one\n"),
        (b"on", b""),
        (b"one\n" + _LONG, b"one\n"),
        (_LONG, b""),
        (_LONG + b"\n" + _LONG, _LONG + b"\n"),
    ],
)
def test_a_line_without_its_end_is_cut_off(tmp_path: Path, written: bytes, kept: bytes) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_bytes(written)
    cut_torn_line(file)
    assert file.read_bytes() == kept


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    cut_torn_line(tmp_path / "none.jsonl")
    assert not (tmp_path / "none.jsonl").exists()
