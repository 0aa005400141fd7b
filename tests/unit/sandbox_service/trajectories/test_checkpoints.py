"""Checkpoints are made beside the writer, and commits go on meanwhile."""

from __future__ import annotations

import sqlite3

import pytest

from sandbox_service.config import StoreConfig
from sandbox_service.trajectories.checkpoints import CHECKPOINT_BYTES
from sandbox_service.trajectories.store import open_store
from tests.harness.episodes import event, instance
from tests.harness.waiting import until


def recorded_in_file(path) -> int:
    """Return the events in the file itself: without the log they are all that a reader finds."""
    connection = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    try:
        return connection.execute("SELECT count(*) FROM events").fetchone()[0]
    except sqlite3.DatabaseError:
        return 0  # Not even the tables are there, or a checkpoint is being made.
    finally:
        connection.close()


@pytest.fixture
async def path(tmp_path):
    return tmp_path / "trajectories.sqlite"


async def test_what_was_committed_is_soon_in_the_file_itself(path):
    store = open_store(StoreConfig(url=f"sqlite:///{path}"))
    store.open_instance(instance())
    store.append(event(sequence=0, request=bytes(CHECKPOINT_BYTES)))
    await store.committed()
    await until(lambda: recorded_in_file(path) == 1)
    store.append(event(sequence=1, request=b"{}"))
    await store.close()
    assert recorded_in_file(path) == 2


async def test_a_reader_that_stays_keeps_no_commit_waiting(path):
    store = open_store(StoreConfig(url=f"sqlite:///{path}"))
    store.open_instance(instance())
    await store.flush()
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM events").fetchone()
    for sequence in range(3):
        store.append(event(sequence=sequence, request=bytes(CHECKPOINT_BYTES)))
        await store.committed()
    assert reader.execute("SELECT count(*) FROM events").fetchone() == (0,)
    reader.close()
    assert len(await store.events("s1.a")) == 3
    await store.close()
