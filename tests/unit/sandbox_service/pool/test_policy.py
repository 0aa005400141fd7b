"""Bounds of a pool that follow the node's size."""

from __future__ import annotations

import pytest

from sandbox_service.config import PoolConfig
from sandbox_service.pool.policy import NodeSize, PoolPolicy

_LAPTOP = NodeSize(cores=2, memory_mib=8192)


def _policy(config: PoolConfig, node: NodeSize, box_memory_mib: int = 0) -> PoolPolicy:
    return PoolPolicy.of(config, node, capacity=1, agent_code=True, box_memory_mib=box_memory_mib)


@pytest.mark.parametrize(
    ("node", "box_memory_mib", "boxes"),
    [
        pytest.param(_LAPTOP, 0, 64, id="cores bound a laptop"),
        pytest.param(NodeSize(64, 262_144), 0, 2048, id="cores bound a server"),
        pytest.param(NodeSize(64, 16_384), 0, 128, id="memory bounds many cores"),
        pytest.param(NodeSize(64, 262_144), 1024, 128, id="memory of a heavy environment"),
        pytest.param(NodeSize(1, 256), 0, 4, id="a small machine has a few all the same"),
    ],
)
def test_most_boxes_follow_cores_and_memory(node: NodeSize, box_memory_mib: int, boxes: int) -> None:
    assert _policy(PoolConfig(), node, box_memory_mib).max_boxes == boxes


def test_as_many_boxes_start_at_once_as_there_are_cores() -> None:
    assert _policy(PoolConfig(), NodeSize(16, 65_536)).max_starting == 16
    assert _policy(PoolConfig(), NodeSize(1, 65_536)).max_starting == 2


def test_configured_bounds_win_over_the_size_of_the_node() -> None:
    policy = _policy(PoolConfig(max_boxes=3, max_starting=1), _LAPTOP)
    assert (policy.max_boxes, policy.max_starting) == (3, 1)


def test_boxes_to_keep_warm_are_never_more_than_the_bound() -> None:
    assert _policy(PoolConfig(min_boxes=5, max_boxes=2), _LAPTOP).min_boxes == 2
    assert _policy(PoolConfig(min_boxes=50), _LAPTOP).min_boxes == 50
