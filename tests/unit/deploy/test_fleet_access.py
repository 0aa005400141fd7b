"""An operator learns of the supervisors of a running fleet, and of those that leave it."""

import pytest

from deploy.fleet_access import RayFleet, placed_supervisor
from sandbox_contract.inspection import PoolStats, SupervisorStats
from sandbox_service.supervisor.options import SupervisorAddress

ADDRESS = SupervisorAddress("s1", "id-1", "/run/s1", "10.0.0.1", None, "secret")
FIGURES = dict.fromkeys(PoolStats.model_fields, 0) | {"environment": "echo", "sandbox": "process"}
POOL = PoolStats(**(FIGURES | {"instances": 2}))


@pytest.mark.parametrize(
    ("counted", "instances"),
    [({"echo": 200}, 200), ({}, 0), (None, 2)],
    ids=["in no box", "cleaned boxes", "an earlier release"],
)
def test_an_instance_counts_in_a_box_or_not(counted, instances):
    stats = SupervisorStats(
        name="s1", node="worker-7", draining=True, uptime_s=1, instances=counted, pools=(POOL,)
    )
    placed = placed_supervisor("s1", ADDRESS, stats.model_dump_json().encode())
    assert (placed.instances, placed.host, placed.draining) == (instances, "worker-7", True)


def test_statistics_of_an_earlier_release_are_read():
    stats = SupervisorStats(name="s1", node="n", draining=False, uptime_s=1, pools=(POOL,))
    sent = stats.model_dump_json(exclude={"instances"}).encode()
    assert placed_supervisor("s1", ADDRESS, sent).instances == 2


class LeftRoster:
    """A fleet that its supervisors have left."""

    def find(self):
        return {}

    def end_all(self, handles, timeout_s):
        return not handles


def test_a_supervisor_that_leaves_between_two_calls_is_no_failure():
    fleet = RayFleet(LeftRoster())
    fleet.begin_drain("s1", move=True)
    fleet.cancel_drain("s1")
    assert (fleet.stop("s1"), fleet.remove("s1")) == (True, True)
