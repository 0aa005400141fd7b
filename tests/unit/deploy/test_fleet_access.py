"""An operator learns of the supervisors of a running fleet, and of those that leave it."""

from dataclasses import replace

import pytest
import ray

from deploy.fleet_access import FleetUnreachableError, RayFleet, placed_supervisor, running_fleet
from sandbox_contract.inspection import PoolStats, SupervisorStats
from sandbox_service.config import ServiceConfig
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


class ActorOfSupervisor:
    """A supervisor as its Ray handle shows it; the future of a call is the pair of both."""

    def __init__(self, name, *, silent=False, failed=False, started=True):
        self.silent = silent
        self.failed = failed
        stats = SupervisorStats(name=name, node=f"host-{name}", draining=False, uptime_s=1, pools=())
        self.answers = {
            "address": replace(ADDRESS, name=name) if started else None,
            "stats": stats.model_dump_json().encode() if started else b"",
        }

    def __getattr__(self, method):
        return Call(self, method)


class Call:
    """A method of an actor."""

    def __init__(self, actor, method):
        self.actor = actor
        self.method = method

    def remote(self):
        return self


class Waiting:
    """Ray's waiting, in simulated time."""

    def __init__(self):
        self.now = 0.0

    def wait(self, calls, *, num_returns, timeout):
        done = [call for call in calls if not call.actor.silent]
        late = [call for call in calls if call.actor.silent]
        if len(done) < num_returns:
            self.now += timeout
        return done, late

    def get(self, calls, *, timeout):
        if any(call.actor.failed for call in calls):
            raise ray.exceptions.ActorDiedError
        if any(call.actor.silent for call in calls):
            self.now += timeout
            raise ray.exceptions.GetTimeoutError
        return [call.actor.answers[call.method] for call in calls]


class Supervisors:
    """A fleet of some supervisors."""

    def __init__(self, **handles):
        self.handles = handles

    def find(self):
        return self.handles


def test_silent_supervisors_are_waited_for_together(monkeypatch):
    waiting = Waiting()
    monkeypatch.setattr(ray, "wait", waiting.wait)
    monkeypatch.setattr(ray, "get", waiting.get)
    gone = {f"gone{number}": ActorOfSupervisor("gone", silent=True) for number in range(6)}
    starting = ActorOfSupervisor("starting", started=False)
    dead = ActorOfSupervisor("dead", failed=True)
    roster = Supervisors(**gone, starting=starting, dead=dead, own=ActorOfSupervisor("own"))
    assert [each.name for each in RayFleet(roster).placed()] == ["own"]
    assert waiting.now == pytest.approx(10)


def test_a_fleet_without_supervisors_has_none_placed():
    assert RayFleet(LeftRoster()).placed() == []


@pytest.mark.parametrize("address", ["10.0.0.1", "foo:bar"], ids=["no port", "a port that is no number"])
def test_an_address_that_ray_cannot_read_is_one_where_no_cluster_answers(address):
    config = ServiceConfig.model_validate({"fleet": {"address": address}})
    with (
        pytest.raises(FleetUnreachableError, match=f"no Ray cluster answers on {address}"),
        running_fleet(config),
    ):
        pass
