"""The times of an answer add up to its duration."""

from __future__ import annotations

from sandbox_service.supervisor.timing import timing_ms


def test_what_is_neither_wait_nor_run_is_on_the_way() -> None:
    assert timing_ms(1.0, run_ms=700.0, queue_ms=200.0) == {
        "queue_ms": 200.0,
        "route_ms": 100.0,
        "run_ms": 700.0,
    }


def test_a_run_that_its_box_measured_as_longer_than_the_whole_leaves_no_negative_time() -> None:
    assert timing_ms(1.0, run_ms=1000.25)["route_ms"] == 0.0


def test_an_operation_without_a_box_is_all_on_the_way() -> None:
    assert timing_ms(0.0015) == {"queue_ms": 0.0, "route_ms": 1.5, "run_ms": 0.0}
