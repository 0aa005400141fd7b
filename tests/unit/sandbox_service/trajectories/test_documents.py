"""Pages of histories that are pruned while they are read."""

import pytest

from sandbox_service.config import StoreConfig
from sandbox_service.trajectories.documents import page_document
from sandbox_service.trajectories.engine import connect
from sandbox_service.trajectories.pages import PageBounds, plan_page
from sandbox_service.trajectories.schema import events, instances
from sandbox_service.trajectories.store import open_store
from tests.harness.episodes import Episode, record


@pytest.fixture
async def connection(tmp_path):
    """A connection to a store with two episodes."""
    url = f"sqlite:///{tmp_path}/trajectories.sqlite"
    store = open_store(StoreConfig(url=url))
    record(store, Episode("s1.a", score=1.0))
    record(store, Episode("s1.b", score=1.0))
    await store.close()
    engine = connect(url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_a_page_of_an_instance_that_was_pruned_after_it_was_planned_is_none(connection):
    gone, kept = (plan_page(connection, "acme", name, PageBounds()) for name in ("s1.a", "s1.b"))
    connection.execute(events.delete().where(events.c.instance_id == "s1.a"))
    connection.execute(instances.delete().where(instances.c.instance_id == "s1.a"))
    assert page_document(connection, gone) is None
    assert page_document(connection, kept)
