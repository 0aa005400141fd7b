"""Bytes recorded within a day."""

from __future__ import annotations

from sandbox_service.pool.usage import DailyBytes

HOUR = 3600.0


def test_bytes_are_counted_by_tenant() -> None:
    usage = DailyBytes()
    usage.add("ada", 5, 0.0)
    usage.add("ada", 6, 10.0)
    usage.add("bob", 7, 10.0)
    assert (usage.recorded("ada", 20.0), usage.recorded("bob", 20.0), usage.recorded("eve", 20.0)) == (
        11,
        7,
        0,
    )


def test_an_hour_is_forgotten_after_a_day_and_not_before() -> None:
    usage = DailyBytes()
    for hour in range(30):
        usage.add("ada", 1, hour * HOUR)
    assert usage.recorded("ada", 29 * HOUR) == 24
    assert usage.frees_in_s("ada", 29.5 * HOUR) == HOUR / 2
    assert usage.recorded("ada", 100 * HOUR) == 0
    assert usage.frees_in_s("ada", 100 * HOUR) == 0


def test_bytes_of_an_earlier_life_are_counted_in_their_hours_beside_those_of_this_one() -> None:
    usage = DailyBytes()
    usage.add("ada", 1, 10 * HOUR)
    usage.recall("ada", 20, -2 * HOUR)
    usage.recall("ada", 300, 10 * HOUR)
    usage.recall("ada", 4000, 9 * HOUR)
    usage.add("ada", 50_000, 10 * HOUR)
    assert usage.recorded("ada", 10 * HOUR) == 54_321
    assert usage.recorded("ada", 22 * HOUR) == 54_301
    assert usage.recorded("ada", 33 * HOUR) == 50_301
