"""All bad rows of recorded data are listed, in the error or in a file that it names."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from trainer.config.recorded import RecordedFiles
from trainer.errors import DataError
from trainer.recorded.bad_rows import BadRows
from trainer.recorded.reading import read_episodes

GOOD = {"messages": [{"role": "user", "content": "Which way?"}, {"role": "assistant", "content": "north"}]}


def write(folder: Path, rows: Sequence[object]) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def recorded(path: Path) -> RecordedFiles:
    return RecordedFiles(files=(path,))


def test_all_bad_rows_are_named_the_first_ones_in_the_error_itself(tmp_path: Path) -> None:
    rows = [GOOD, *({"messages": []} for _ in range(12))]
    path = write(tmp_path, rows)
    with pytest.raises(DataError, match="12 of 13 rows cannot be used") as caught:
        read_episodes(recorded(path))
    lines = str(caught.value).split("\n")
    listed = (tmp_path / "rows.jsonl.bad").read_text().splitlines()
    assert f"{tmp_path / 'rows.jsonl.bad'} lists all of them" in lines[0]
    assert [line.partition(": ")[0] for line in listed] == [f"{path}:{row}" for row in range(2, 14)]
    assert lines[1:] == [*listed[:10], "... and 2 more"]


def test_up_to_ten_bad_rows_are_in_the_error_alone(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="10 of 10 rows cannot be used:\n") as caught:
        read_episodes(recorded(write(tmp_path, [{"messages": []}] * 10)))
    assert len(str(caught.value).split("\n")) == 11
    assert [each.name for each in tmp_path.iterdir()] == ["rows.jsonl"]


def test_where_nothing_can_be_written_beside_the_data_the_list_is_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bad = BadRows()
    for number in range(11):
        bad.add(f"http://127.0.0.1:9:instance-{number}", "has no message")
    with pytest.raises(DataError, match="lists all of them"):
        bad.raise_any(11)
    (listed,) = tmp_path.glob("bad_rows_*.txt")
    assert len(listed.read_text().splitlines()) == 11
