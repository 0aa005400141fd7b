"""Bytes of files that are no part of their rows."""

import json
from codecs import BOM_UTF8
from pathlib import Path

import pytest

from trainer.recorded.bad_rows import RowError
from trainer.recorded.rows import file_rows


@pytest.mark.parametrize(
    ("name", "body", "rows"),
    [
        ("rows.jsonl", b'{"a": 1}\n{"a": 2}\n', [(1, {"a": 1}), (2, {"a": 2})]),
        ("rows.jsonl", b'\n{"a": 1}\n', [(2, {"a": 1})]),
        ("rows.json", b'[{"a": 1}]', [(1, {"a": 1})]),
    ],
)
def test_a_byte_order_mark_before_the_first_row_is_left_out(
    tmp_path: Path, name: str, body: bytes, rows: list[object]
) -> None:
    path = tmp_path / name
    path.write_bytes(BOM_UTF8 + body)
    assert list(file_rows(path)) == rows


def test_such_a_mark_inside_a_text_stays(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"a": "\ufeffb"}, ensure_ascii=False), encoding="utf-8")
    assert list(file_rows(path)) == [(1, {"a": "\ufeffb"})]


def test_bytes_that_are_no_text_are_told_by_their_place(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": "\xff"}')
    ((_, error),) = file_rows(path)
    assert isinstance(error, RowError)
    assert str(error) == "is not UTF-8 text at byte 7"
