"""Lines that are added to a file: each once, and all again if the file began anew."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from sandbox_service.console.growing_file import GrowingFile, last_lines


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def _never() -> None:
    pytest.fail("the file did not begin anew")


def test_each_line_comes_once_and_an_unfinished_one_when_it_is_complete(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nth")
    file = GrowingFile(path)
    assert list(file.read_new(lambda: None)) == [(0, b"one\n"), (4, b"two\n")]
    assert list(file.read_new(_never)) == []
    with path.open("ab") as more:
        more.write(b"ree\n")
    assert list(file.read_new(_never)) == [(8, b"three\n")]
    assert file.line_at(4) == b"two\n"


def test_a_file_that_was_cut_or_replaced_is_read_from_its_beginning(path: Path) -> None:
    path.write_bytes(b"one\ntwo\n")
    file = GrowingFile(path)
    assert len(list(file.read_new(lambda: None))) == 2
    begun_anew: list[bool] = []
    path.write_bytes(b"new\n")
    assert list(file.read_new(lambda: begun_anew.append(True))) == [(0, b"new\n")]
    other = path.with_name("other")
    other.write_bytes(b"newer\nnewest\n")
    other.replace(path)
    assert len(list(file.read_new(lambda: begun_anew.append(True)))) == 2
    assert begun_anew == [True, True]
    path.unlink()
    assert list(file.read_new(_never)) == []


def test_a_longer_file_in_the_place_of_a_removed_one_is_read_from_its_beginning(path: Path) -> None:
    path.write_bytes(b"one\ntwo\n")
    file = GrowingFile(path)
    assert len(list(file.read_new(lambda: None))) == 2
    begun_anew: list[bool] = []
    # Written in place: the same inode, as a file system may give to the next file that is made.
    path.write_bytes(b"ONE\nTWO\nTHREE\n")
    assert [line for _, line in file.read_new(lambda: begun_anew.append(True))] == [
        b"ONE\n",
        b"TWO\n",
        b"THREE\n",
    ]
    assert begun_anew == [True]


def test_a_long_file_is_recognised_by_the_last_that_was_read(path: Path) -> None:
    line = b"x" * 9_999 + b"\n"
    path.write_bytes(line * 3)
    file = GrowingFile(path)
    assert len(list(file.read_new(lambda: None))) == 3
    with path.open("ab") as more:
        more.write(line)
    assert list(file.read_new(_never)) == [(30_000, line)]


def test_a_file_is_never_held_whole(path: Path) -> None:
    line = b"x" * 99_999 + b"\n"
    path.write_bytes(line * 200)
    tracemalloc.start()
    lines = sum(1 for _ in GrowingFile(path).read_new(lambda: None))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert lines == 200
    assert most < 10 * len(line)


def test_the_last_lines_are_complete_ones(path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree\nfo")
    assert last_lines(path, 1000) == [b"one", b"two", b"three"]
    assert last_lines(path, 10) == [b"three"]
    assert last_lines(path.with_name("missing"), 10) == []
