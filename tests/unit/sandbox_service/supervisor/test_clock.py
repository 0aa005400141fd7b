"""The system's clock."""

from __future__ import annotations

from sandbox_service.supervisor.clock import SystemClock


def test_monotonic_time_never_goes_back_and_unix_time_is_of_this_era() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()
    assert clock.time() > 1_700_000_000
