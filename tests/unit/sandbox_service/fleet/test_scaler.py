"""The scaler's rounds over supervisors that are slow or silent, and the load that statistics state."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sandbox_contract.inspection import PoolStats, SupervisorStats
from sandbox_service.fleet import scaler as scaler_module
from sandbox_service.fleet.scaler import FleetScaler, load_of
from sandbox_service.fleet.scaling import GATEWAY_S, NodeLoad, ScalingPolicy, needed_nodes
from sandbox_service.supervisor.options import SupervisorAddress, running_version
from tests.fakes.clock import FakeClock
from tests.harness.waiting import until

NEW_FIGURES = {
    *("image_busy", "image_queued", "max_image_boxes", "verifier_busy", "max_verifier_boxes"),
    *("images", "refused_images", "max_images"),
}
"""Figures of a pool that an earlier release does not send."""
POLICY = ScalingPolicy(min_nodes=1, max_nodes=4, target_use=1.0, idle_s=0.0, interval_s=0.001)


def pool(environment: str, **figures: int) -> PoolStats:
    plain = dict.fromkeys(PoolStats.model_fields, 0) | {"sandbox": "process", "max_boxes": 8}
    return PoolStats(**(plain | {"environment": environment} | figures))  # type: ignore[arg-type]


class Method:
    """A method of an actor."""

    def __init__(self, call: Callable[..., Coroutine[Any, Any, object]]) -> None:
        self.remote = call


class ActorOfSupervisor:
    """A supervisor as its Ray handle shows it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.instances = 0
        self.draining = False
        self.resumed = False
        self.silent = False
        self.unanswered = 0
        """Reports that it was asked for while it was silent."""
        self.address = Method(self._address)
        self.stats = Method(self._stats)
        self.begin_drain = Method(self._begin_drain)
        self.cancel_drain = Method(self._cancel_drain)

    async def _address(self) -> SupervisorAddress:
        return SupervisorAddress(self.name, f"id-{self.name}", "", "", None, "")

    async def _stats(self) -> bytes:
        if self.silent:
            self.unanswered += 1
            raise TimeoutError
        pools = (pool("code", busy=self.instances, instances=self.instances),)
        counted = {"code": self.instances}
        stats = SupervisorStats(
            name=self.name, node="n", draining=self.draining, uptime_s=1, instances=counted, pools=pools
        )
        return stats.model_dump_json().encode()

    async def _begin_drain(self, *, move: bool) -> None:
        self.draining = True

    async def _cancel_drain(self) -> None:
        self.draining, self.resumed = False, True


class RosterInMemory:
    """A fleet without Ray."""

    def __init__(self, *names: str) -> None:
        self.version = running_version()
        self.supervisors = {name: ActorOfSupervisor(name) for name in names}
        self.requested: list[int] = []
        self.started_on: list[str] = []
        """Nodes that got a supervisor in place of another one."""
        self.ending: list[str] = []
        self.ended: list[str] = []
        self.boxes_destroyed = threading.Event()
        """Supervisors end once it is set."""
        self.boxes_destroyed.set()

    def find(self) -> dict[str, ActorOfSupervisor]:
        return dict(self.supervisors)

    def request_nodes(self, number: int) -> None:
        self.requested.append(number)

    def end_all(self, handles: Collection[ActorOfSupervisor], timeout_s: float) -> bool:
        self.ending += [each.name for each in handles]
        self.boxes_destroyed.wait(timeout_s)
        self.ended += [each.name for each in handles if self.supervisors.pop(each.name, None)]
        return True

    def start_missing(
        self,
        known: Collection[str],
        placed: Mapping[str, str],
        limit: int | None = None,
        *,
        nodes: Collection[str] = (),
    ) -> list[str]:
        self.started_on += sorted(nodes)
        return []


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@asynccontextmanager
async def scaled(roster: RosterInMemory) -> AsyncIterator[FleetScaler]:
    """A scaler of a fleet without a gateway on its nodes."""
    clock = FakeClock()
    scaler = FleetScaler(roster, POLICY, clock.monotonic)  # type: ignore[arg-type]
    clock.advance(GATEWAY_S)
    try:
        yield scaler
    finally:
        roster.boxes_destroyed.set()
        await scaler.stop()


async def test_a_draining_node_that_does_not_answer_for_a_moment_is_given_back_all_the_same() -> None:
    roster = RosterInMemory("a", "b")
    staying, leaving = roster.supervisors["a"], roster.supervisors["b"]
    staying.instances, leaving.instances = 3, 1
    async with scaled(roster):
        await until(lambda: leaving.draining)
        leaving.silent = True
        await until(lambda: leaving.unanswered > 1)
        leaving.instances, leaving.silent = 0, False
        await until(lambda: roster.ended == ["b"])


async def test_nodes_are_asked_for_while_drained_supervisors_destroy_their_boxes() -> None:
    roster = RosterInMemory("a", "b", "c")
    roster.supervisors["c"].instances = 1
    roster.boxes_destroyed.clear()
    async with scaled(roster):
        await until(lambda: roster.ending == ["a", "b"])
        roster.supervisors["c"].instances = 17
        await until(lambda: roster.requested[-1] == 3)
        assert roster.ended == []
        roster.boxes_destroyed.set()
        await until(lambda: roster.ended == ["a", "b"])
    assert roster.ending == ["a", "b"], "once each"


async def test_a_scaler_that_stops_cancels_its_drains_but_for_supervisors_that_end_already() -> None:
    roster = RosterInMemory("a", "b", "c")
    ending, draining = roster.supervisors["a"], roster.supervisors["b"]
    draining.instances, roster.supervisors["c"].instances = 1, 2
    roster.boxes_destroyed.clear()
    async with scaled(roster) as scaler:
        await until(lambda: roster.ending == ["a"])
        stopping = asyncio.create_task(scaler.stop())
        await until(lambda: draining.resumed)
        roster.boxes_destroyed.set()
        await stopping
        assert (roster.ended, ending.resumed, roster.requested[-1]) == (["a"], False, 0)


async def test_a_scaler_that_stops_leaves_no_supervisor_that_is_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scaler_module, "END_SCALER_S", 0.1)
    roster = RosterInMemory("a", "b")
    roster.supervisors["b"].instances = 1
    roster.boxes_destroyed.clear()
    async with scaled(roster) as scaler:
        await until(lambda: roster.ending == ["a"])
        await scaler.stop()
        assert roster.ended == ["a"]
        roster.boxes_destroyed.set()


async def test_a_supervisor_that_is_replaced_within_a_round_gets_a_replacement_on_its_node() -> None:
    roster = RosterInMemory("a", "b")
    roster.supervisors["a"].instances = roster.supervisors["b"].instances = 8
    async with scaled(roster) as scaler:
        await scaler.expect_replacement("b", "id-b")
        del roster.supervisors["b"]
        await until(lambda: roster.started_on == ["id-b"])


def test_queued_creates_count_as_the_boxes_that_they_need() -> None:
    pools = (
        pool("code", busy=3, idle=2, instances=3, queued=4, capacity=1),
        pool("bfcl", busy=1, instances=900, queued=1001, capacity=1000),
    )
    stats = SupervisorStats(name="a", node="n", draining=True, uptime_s=1, pools=pools)
    expected = NodeLoad("a", True, 903, {"code": 7, "bfcl": 3}, {"code": 8, "bfcl": 8})
    assert load_of(stats) == expected


def test_boxes_of_images_are_scarce_apart_from_the_others_and_so_are_the_images() -> None:
    busy = {"busy": 3 + 20 + 2, "image_busy": 20, "verifier_busy": 2}
    queued = {"queued": 1 + 4, "image_queued": 4}
    most = {"max_boxes": 128, "max_image_boxes": 32, "max_verifier_boxes": 32}
    images = {"images": 6, "refused_images": 2, "max_images": 8}
    pools = (pool("code", **busy, **queued, **most, **images),)
    load = load_of(SupervisorStats(name="a", node="n", draining=False, uptime_s=1, pools=pools))
    assert load.boxes == {"code": 4, "code (boxes of images)": 24, "code (images)": 8}
    assert load.max_boxes == {"code": 128, "code (boxes of images)": 32, "code (images)": 8}
    assert needed_nodes([load], 0.8) == 2


def test_boxes_of_images_that_an_earlier_release_does_not_count_apart_are_boxes_of_the_environment() -> None:
    sent = pool("code", busy=20, queued=2, capacity=1).model_dump(exclude=NEW_FIGURES)
    stats = SupervisorStats(
        name="a", node="n", draining=False, uptime_s=1, pools=(PoolStats.model_validate(sent),)
    )
    assert (load_of(stats).boxes, load_of(stats).max_boxes) == ({"code": 22}, {"code": 8})


def test_a_node_whose_instances_are_in_no_box_has_instances() -> None:
    pools = (pool("bfcl", instances=1), pool("code"))
    counted = {"bfcl": 200, "code": 3}
    stats = SupervisorStats(name="a", node="n", draining=True, uptime_s=1, instances=counted, pools=pools)
    assert load_of(stats).instances == 203
