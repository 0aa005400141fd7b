import asyncio

import pytest

from sandbox_service.trajectories.engine import connect
from sandbox_service.trajectories.pruning import PruneRules, reclaim
from sandbox_service.trajectories.upgrade import prepare
from tests.contract.trajectory_pruning import PruningContract, add
from tests.harness.episodes import START


class TestSqlitePruning(PruningContract):
    @pytest.fixture
    def url(self, tmp_path):
        return f"sqlite:///{tmp_path}/trajectories.sqlite"

    async def test_a_reclaimed_file_is_smaller(self, store, engine, tmp_path):
        add(store, "old", steps=2000)
        await self.pruned(store, engine, PruneRules(START + 50))
        before = (tmp_path / "trajectories.sqlite").stat().st_size
        await asyncio.to_thread(reclaim, engine)
        assert (tmp_path / "trajectories.sqlite").stat().st_size < before / 4


def test_forks_are_found_by_an_index(tmp_path):
    # Without it each page of families reads the whole table.
    engine = connect(f"sqlite:///{tmp_path}/store.sqlite")
    prepare(engine)
    query = (
        "EXPLAIN QUERY PLAN WITH RECURSIVE family(id) AS (SELECT instance_id FROM instances WHERE instance_id"
        " IN ('a', 'b') UNION ALL SELECT instances.instance_id FROM instances JOIN family ON"
        " instances.parent = family.id) SELECT * FROM family"
    )
    with engine.connect() as connection:
        plan = [row[-1] for row in connection.exec_driver_sql(query)]
    engine.dispose()
    assert any("instances_by_parent" in line for line in plan)
