"""A judge's file that another process holds is a failure of the judge, and keeps nothing else waiting."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer.errors import ConfigError, JudgeFailed
from trainer.outcomes.judge_store import JudgeStore, Spent

BUSY_S = 0.5


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "judge.sqlite"


@contextlib.contextmanager
def held(file: Path) -> Iterator[None]:
    """Another connection has the file for itself."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield


async def test_the_event_loop_goes_on_while_another_holds_the_file(file: Path) -> None:
    store = JudgeStore(file, "run", BUSY_S)
    for use in (store.find_answer("key"), store.spent(), store.add_spent(1, 0)):
        turns = 0
        with held(file):
            using = asyncio.create_task(use)
            while not using.done():
                await asyncio.sleep(0.001)
                turns += 1
        assert turns > 2
        with pytest.raises(JudgeFailed, match=r"judge\.sqlite cannot be used: database is locked"):
            await using
    assert await store.spent() == Spent(0, 0)
    await store.close()


async def test_a_use_behind_many_others_fails_in_time_and_is_not_made_later(file: Path) -> None:
    store = JudgeStore(file, "run", BUSY_S)
    with held(file):
        for _ in range(5):
            store.count_tokens(1)
        with pytest.raises(JudgeFailed, match=r"judge\.sqlite is in use for 1 s"):
            await store.add_spent(1, 0)
    assert (await store.spent()).calls == 0
    await store.close()


async def test_tokens_that_could_not_be_counted_are_counted_with_the_next_request(file: Path) -> None:
    store = JudgeStore(file, "run", BUSY_S)
    with held(file):
        store.count_tokens(7)
        with pytest.raises(JudgeFailed):
            await store.spent()
    assert await store.spent() == Spent(0, 7)
    await store.add_spent(1, 0)
    await store.close()
    again = JudgeStore(file, "run", BUSY_S)
    assert await again.spent() == Spent(1, 7)
    await again.close()


async def test_an_answer_that_could_not_be_kept_is_asked_for_again(file: Path) -> None:
    store = JudgeStore(file, "run", BUSY_S)
    with held(file):
        store.remember("key", "lost")
        with pytest.raises(JudgeFailed):
            await store.find_answer("key")
    assert await store.find_answer("key") is None
    store.remember("key", "kept")
    assert await store.find_answer("key") == "kept"
    await store.close()


async def test_all_is_written_before_the_file_is_closed(file: Path) -> None:
    store = JudgeStore(file, "run")
    for number in range(9):
        store.remember(str(number), "an answer")
    await store.close()
    await store.close()
    again = JudgeStore(file, "run")
    assert await again.find_answer("8") == "an answer"
    await again.close()


def test_a_file_that_cannot_be_opened_is_a_mistake_in_the_settings(file: Path) -> None:
    file.write_text("no database, and longer than the header of one would be: " * 9)
    with pytest.raises(ConfigError, match=r"reward\.judge\.cache: .*judge\.sqlite cannot be used"):
        JudgeStore(file, "run")
