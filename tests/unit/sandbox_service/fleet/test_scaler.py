"""The load that a supervisor's statistics tell."""

from __future__ import annotations

from sandbox_contract.inspection import PoolStats, SupervisorStats
from sandbox_service.fleet.scaler import load_of
from sandbox_service.fleet.scaling import NodeLoad


def pool(environment: str, **figures: int) -> PoolStats:
    plain = dict.fromkeys(PoolStats.model_fields, 0) | {"sandbox": "process", "max_boxes": 8}
    return PoolStats(**(plain | {"environment": environment} | figures))  # type: ignore[arg-type]


def test_queued_creates_count_as_the_boxes_that_they_need() -> None:
    pools = (
        pool("code", busy=3, idle=2, instances=3, queued=4, capacity=1),
        pool("bfcl", busy=1, instances=900, queued=1001, capacity=1000),
    )
    stats = SupervisorStats(name="a", node="n", draining=True, uptime_s=1, pools=pools)
    expected = NodeLoad("a", True, 903, {"code": 7, "bfcl": 3}, {"code": 8, "bfcl": 8})
    assert load_of(stats) == expected


def test_a_node_whose_instances_are_in_no_box_has_instances() -> None:
    pools = (pool("bfcl", instances=1), pool("code"))
    counted = {"bfcl": 200, "code": 3}
    stats = SupervisorStats(name="a", node="n", draining=True, uptime_s=1, instances=counted, pools=pools)
    assert load_of(stats).instances == 203
