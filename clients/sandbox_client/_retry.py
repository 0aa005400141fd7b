"""Decide whether a failed call is sent again, and after how long: pure functions, no clock, no I/O.

A retry is safe, because every call that changes something carries an idempotency key. What the problem
document calls not retryable is never sent again. A full service is asked again until the total deadline,
since waiting is what it asks for; everything else also has a bound on attempts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sandbox_contract.problems import FailureClass

if TYPE_CHECKING:
    from .errors import Failure

__all__ = ["RetryPolicy"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with jitter under a total deadline."""

    attempts: int = 8
    """Most times that a call is sent; not counted while the service is full."""
    base_s: float = 0.1
    """Longest first wait."""
    cap_s: float = 5.0
    """Longest wait, unless the service asks for a longer one."""
    total_s: float = 900.0
    """Longest time in attempts and waits after which another attempt begins, beyond the time that the call
    itself may take. An attempt in progress is not interrupted: it ends by ``ClientLimits.attempt_s``. Time in
    the client's own queue is not counted."""

    def within(self, give_up_s: float | None) -> RetryPolicy:
        """Return the policy with this total deadline, where there is one and it is shorter."""
        return self if give_up_s is None else replace(self, total_s=min(self.total_s, give_up_s))

    def wait_s(
        self, failure: Failure, attempt: int, elapsed_s: float, jitter: float, timeout_s: float = 0.0
    ) -> float | None:
        """Return the seconds until attempt ``attempt + 1``, or None to give up.

        ``attempt`` counts from 1, ``jitter`` is uniform in [0, 1), ``timeout_s`` is the time that the call
        itself may take: a repetition joins what still runs. The back-off is drawn from its upper half,
        and a Retry-After is lengthened by up to a quarter, so that clients that were refused together do not
        come back together.
        """
        if not failure.retryable:
            return None
        if attempt >= self.attempts and failure.failure_class is not FailureClass.CAPACITY:
            return None
        ceiling = min(self.cap_s, self.base_s * 2.0 ** min(attempt - 1, 30))
        wait = ceiling * (0.5 + jitter / 2)
        if failure.retry_after_s is not None:
            wait = max(wait, failure.retry_after_s * (1 + jitter / 4))
        return wait if elapsed_s + wait <= self.total_s + timeout_s else None
