"""Leases run out by idleness only."""

from __future__ import annotations

from sandbox_service.config import LeaseConfig
from sandbox_service.pool.leases import Leases, LeaseState


def _leases() -> Leases:
    return Leases(LeaseConfig().idle_timeout_s)


def test_the_idle_time_is_300_seconds() -> None:
    leases = _leases()
    lease = leases.open("a", 0.0)
    assert leases.run_out(299.9) == []
    assert leases.expires_in_s(lease, 299.0) == 1.0
    assert leases.run_out(300.0) == [lease]
    assert lease.state is LeaseState.EXPIRED
    assert leases.run_out(900.0) == []


def test_use_renews_a_lease() -> None:
    leases = _leases()
    lease = leases.open("a", 0.0)
    leases.begin_use(lease, 200.0)
    leases.end_use(lease, 250.0)
    assert leases.run_out(549.0) == []
    assert leases.run_out(550.0) == [lease]


def test_a_lease_in_use_does_not_run_out() -> None:
    leases = _leases()
    lease = leases.open("a", 0.0)
    leases.begin_use(lease, 0.0)
    other = leases.open("b", 1.0)
    assert leases.run_out(1000.0) == [other]
    assert leases.expires_in_s(lease, 1000.0) is None


def test_an_ended_lease_is_forgotten_once() -> None:
    leases = _leases()
    lease = leases.open("a", 0.0)
    leases.end_lease(lease)
    leases.end_lease(lease)
    leases.end_use(lease, 5.0)
    assert lease.state is LeaseState.ENDED
    assert len(leases) == 0


def test_leases_run_out_in_the_order_of_their_last_use() -> None:
    leases = _leases()
    first, second = leases.open("a", 0.0), leases.open("b", 1.0)
    leases.begin_use(first, 2.0)
    leases.end_use(first, 3.0)
    assert leases.run_out(302.0) == [second]
    assert leases.run_out(303.0) == [first]
