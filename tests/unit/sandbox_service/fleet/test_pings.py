"""Silence of supervisors that live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sandbox_service.fleet.pings import Pings
from sandbox_service.supervisor.options import SupervisorAddress
from tests.fakes.clock import FakeClock

LIMIT_S = 30.0
ROUND_S = 7.0


def address(name: str) -> SupervisorAddress:
    return SupervisorAddress(name, "node", "/socket", "10.0.0.7", 4000, "secret")


class Supervisor:
    """The other end of a handle: it answers with its address, or with nothing until it goes on."""

    def __init__(self, name: str) -> None:
        self.answer: SupervisorAddress | None = address(name)
        self.going = asyncio.Event()
        self.going.set()
        self.asked = 0


async def ask(supervisor: Supervisor) -> SupervisorAddress | None:
    supervisor.asked += 1
    await supervisor.going.wait()
    return supervisor.answer


class Fleet:
    """Two supervisors, one of which may hang, and rounds of pings."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.supervisors = {name: Supervisor(name) for name in ("a", "b")}
        self.pings = Pings(ask, answer_s=0.01, most_round_s=ROUND_S, clock=self.clock.monotonic)

    async def round(self, after_s: float = 5.0) -> set[str]:
        self.clock.advance(after_s)
        return set(await self.pings.ask_all(self.supervisors))


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    fleet = Fleet()
    yield fleet
    await fleet.pings.close()


async def test_a_supervisor_that_stops_answering_hangs_after_the_limit_and_no_other_does(fleet: Fleet):
    assert await fleet.round() == {"a", "b"}
    fleet.supervisors["a"].going.clear()
    for _ in range(6):
        assert await fleet.round() == {"b"}
    assert fleet.pings.hung(LIMIT_S) == set()
    await fleet.round()
    assert fleet.pings.hung(LIMIT_S) == {"a"}
    assert fleet.supervisors["a"].asked == 2, "one call at a time"


async def test_a_late_answer_ends_the_silence(fleet: Fleet):
    await fleet.round()
    fleet.supervisors["a"].going.clear()
    for _ in range(8):
        await fleet.round()
    fleet.supervisors["a"].going.set()
    assert await fleet.round() == {"a", "b"}
    assert fleet.pings.hung(LIMIT_S) == set()


async def test_a_supervisor_that_starts_does_not_hang_however_long_it_takes(fleet: Fleet):
    await fleet.round()
    fleet.supervisors["a"].answer = None
    await fleet.round()
    fleet.supervisors["a"].going.clear()
    for _ in range(20):
        await fleet.round()
    assert fleet.pings.hung(LIMIT_S) == set()


async def test_time_in_which_the_gateway_itself_stood_still_is_no_silence(fleet: Fleet):
    await fleet.round()
    fleet.supervisors["a"].going.clear()
    await fleet.round()
    await fleet.round(after_s=3600)
    assert fleet.pings.hung(ROUND_S) == {"a"}
    assert fleet.pings.hung(ROUND_S + 1) == set()


async def test_a_supervisor_that_is_gone_is_forgotten(fleet: Fleet):
    await fleet.round()
    fleet.supervisors["a"].going.clear()
    await fleet.round()
    gone = fleet.supervisors.pop("a")
    await fleet.round(after_s=3600)
    assert fleet.pings.hung(0.0) == set()
    gone.going.set()
    fleet.supervisors["a"] = gone
    assert await fleet.round() == {"a", "b"}
