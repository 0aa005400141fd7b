"""Bytes of files that are no part of their rows, and values of Parquet that JSON does not have."""

import json
from codecs import BOM_UTF8
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyarrow import StringArray, Table, py_buffer, table
from pyarrow.parquet import write_table

from trainer.errors import DataError
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


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_half_of_a_surrogate_pair_is_read_as_a_question_mark(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    row = '{"a\\udc00": ["ok \\uD83D", "\\ud83d\\ude00", "\\\\ud83d"], "b": 0.1}'
    path.write_text(f"[{row}]" if name == "rows.json" else row)
    ((_, value),) = file_rows(path)
    assert value == {"a?": ["ok ?", "\U0001f600", "\\ud83d"], "b": 0.1}


def test_a_text_of_parquet_that_is_no_text_is_an_error_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    half = StringArray.from_buffers(1, py_buffer(b"\0\0\0\0\3\0\0\0"), py_buffer(b"\xed\xa0\xbd"))
    write_table(table({"a": half}), path)
    with pytest.raises(DataError, match=r"rows.parquet: one of the 256 rows from row 1 on"):
        list(file_rows(path))


def parquet_rows(path: Path, *rows: dict[str, object]) -> list[object]:
    write_table(Table.from_pylist([*rows]), path)
    return [row for _, row in file_rows(path)]


def test_fields_that_only_other_structs_of_a_column_have_are_left_out(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"calls": [{"name": "search", "arguments": {"query": "a"}}], "score": 1.0, "tool": {"a": {"x": "y"}}},
        {"calls": [{"name": "open", "arguments": {"page": 3}}, {"name": "end"}], "score": None, "tool": None},
        {"calls": [], "score": 0.0, "tool": {"b": {"enum": ["u", None]}}},
    ]
    assert parquet_rows(tmp_path / "rows.parquet", *rows) == rows


def test_times_and_decimals_are_read_as_texts_and_numbers(tmp_path: Path) -> None:
    row = {
        "at": datetime(2026, 1, 2, 3, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "hour": time(3, 4),
        "took": timedelta(seconds=1.5),
        "score": Decimal("0.50"),
        "messages": [{"at": datetime(2026, 1, 2)}],
    }
    assert parquet_rows(tmp_path / "rows.parquet", row) == [
        {
            "at": "2026-01-02T03:00:00+00:00",
            "day": "2026-01-02",
            "hour": "03:04:00",
            "took": 1.5,
            "score": 0.5,
            "messages": [{"at": "2026-01-02T00:00:00"}],
        }
    ]
