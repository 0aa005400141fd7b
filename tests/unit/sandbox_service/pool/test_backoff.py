"""Waiting after failed starts."""

from __future__ import annotations

from sandbox_service.pool.backoff import StartBackoff


def test_the_wait_doubles_up_to_a_bound() -> None:
    backoff = StartBackoff()
    waits = []
    for _ in range(8):
        backoff.failed(0.0, lasting=False)
        waits.append(backoff.until)
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_one_start_at_a_time_probes_after_a_failure() -> None:
    backoff = StartBackoff()
    assert backoff.allows(0.0, starting=5)
    backoff.failed(0.0, lasting=False)
    assert not backoff.allows(0.4, starting=0)
    assert backoff.allows(0.5, starting=0)
    assert not backoff.allows(0.5, starting=1)


def test_a_success_forgets_everything() -> None:
    backoff = StartBackoff()
    backoff.failed(0.0, lasting=True)
    assert backoff.permanently_failing
    backoff.succeeded()
    assert backoff == StartBackoff()


def test_a_failure_is_permanent_only_when_it_repeats() -> None:
    backoff = StartBackoff()
    retried = []
    for _ in range(3):
        backoff.failed(0.0, lasting=False)
        retried.append(not backoff.permanently_failing)
    assert retried == [True, True, False]
