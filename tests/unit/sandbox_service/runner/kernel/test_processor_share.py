"""The share of a processor, beside real other work."""

from __future__ import annotations

from sandbox_service.runner.kernel.processor_share import share_of_processor, waits_are_counted
from tests.harness.busy import busy_cpu, on_the_busy_cpu


def test_a_thread_beside_four_others_gets_less_than_half_a_processor() -> None:
    with on_the_busy_cpu(), busy_cpu(others=4):
        shares = [share_of_processor() for _ in range(3)]
    assert 0 <= sorted(shares)[1] < 0.5


def test_linux_reports_no_wait_as_computing() -> None:
    assert not waits_are_counted()
