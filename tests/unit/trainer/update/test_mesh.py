import pytest

from trainer.config import LearnerConfig
from trainer.errors import ConfigError
from trainer.update.mesh import Mesh


def test_neighbours_share_rows_and_copies_are_far_apart():
    places = [Mesh(rank, 8, replicas=2, context=2) for rank in range(8)]
    assert [place.rows_rank for place in places] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [place.context_rank for place in places] == [0, 1] * 4
    assert {(place.rows_world, place.shards) for place in places} == {(4, 4)}


def test_a_world_that_cannot_be_divided_is_refused():
    config = LearnerConfig(sharding="fsdp2", replicas=2, workers=4)
    with pytest.raises(ConfigError, match="3 workers cannot be divided into replicas=2"):
        Mesh.of(config, 0, 3)


def test_several_workers_without_a_process_group_are_refused():
    with pytest.raises(ConfigError, match="2 workers need a process group"):
        Mesh.of(LearnerConfig(workers=2), 0, 2)
