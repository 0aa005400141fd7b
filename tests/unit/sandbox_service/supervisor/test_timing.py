"""The times of a request add up to its duration."""

from __future__ import annotations

from sandbox_service.supervisor.timing import RequestTimer
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.clock import FakeClock


def _reply(run_ms: float) -> Frame:
    return Frame(Op.REPLY, 1, meta={"run_ms": run_ms})


async def test_time_neither_in_the_queue_nor_in_the_box_is_on_the_way() -> None:
    clock = FakeClock()
    timer = RequestTimer(clock)

    async def wait() -> str:
        clock.advance(0.2)
        return "a box"

    assert await timer.queue(wait()) == "a box"
    timer.add_run(_reply(400.0))
    timer.add_run(_reply(300.0))
    clock.advance(0.8)
    assert timer.split() == {"queue_ms": 200.0, "route_ms": 100.0, "run_ms": 700.0}


def test_a_run_that_its_box_measured_as_longer_than_the_whole_leaves_no_negative_time() -> None:
    clock = FakeClock()
    timer = RequestTimer(clock)
    timer.add_run(_reply(1000.25))
    clock.advance(1.0)
    assert timer.split()["route_ms"] == 0.0


def test_an_operation_without_a_box_is_all_on_the_way() -> None:
    clock = FakeClock()
    timer = RequestTimer(clock)
    clock.advance(0.0015)
    assert timer.split() == {"queue_ms": 0.0, "route_ms": 1.5, "run_ms": 0.0}
