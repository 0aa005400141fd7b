import pytest

from sandbox_client import RetryPolicy
from sandbox_client.errors import Failure
from sandbox_contract.problems import FailureClass


def failure(
    kind: FailureClass = FailureClass.SANDBOX, retryable: bool = True, after: float | None = None
) -> Failure:
    return Failure("", "code", kind, retryable, retry_after_s=after)


def test_what_is_not_retryable_is_never_sent_again() -> None:
    assert RetryPolicy().wait_s(failure(retryable=False), 1, 0.0, 0.0) is None


def test_waits_double_up_to_the_cap() -> None:
    policy = RetryPolicy(attempts=20, base_s=1.0, cap_s=4.0)
    waits = [policy.wait_s(failure(), attempt, 0.0, 1.0) for attempt in range(1, 6)]
    assert waits == [1.0, 2.0, 4.0, 4.0, 4.0]


def test_jitter_takes_the_wait_from_its_upper_half() -> None:
    policy = RetryPolicy(base_s=1.0)
    assert policy.wait_s(failure(), 1, 0.0, 0.0) == 0.5
    assert policy.wait_s(failure(), 1, 0.0, 0.5) == 0.75


@pytest.mark.parametrize("jitter", [0.0, 0.5, 0.999])
def test_retry_after_is_waited_in_full_and_spread(jitter: float) -> None:
    wait = RetryPolicy(cap_s=1.0).wait_s(failure(after=8.0), 1, 0.0, jitter)
    assert wait is not None
    assert 8.0 <= wait <= 10.0


def test_attempts_are_bounded() -> None:
    policy = RetryPolicy(attempts=3)
    assert policy.wait_s(failure(), 2, 0.0, 0.0) is not None
    assert policy.wait_s(failure(), 3, 0.0, 0.0) is None


def test_a_full_service_is_asked_until_the_deadline() -> None:
    policy = RetryPolicy(attempts=3, total_s=100.0)
    full = failure(FailureClass.CAPACITY, after=1.0)
    assert policy.wait_s(full, 50, 90.0, 0.0) == 2.5
    assert policy.wait_s(full, 50, 99.5, 0.0) is None


def test_no_wait_goes_past_the_total_deadline() -> None:
    policy = RetryPolicy(total_s=10.0)
    assert policy.wait_s(failure(after=5.0), 1, 6.0, 0.0) is None


def test_an_endless_number_of_attempts_does_not_overflow() -> None:
    full = failure(FailureClass.CAPACITY)
    assert RetryPolicy().wait_s(full, 100_000, 0.0, 1.0) == 5.0


def test_a_call_that_may_take_long_can_be_repeated_after_most_of_it() -> None:
    policy = RetryPolicy(total_s=10.0)
    assert policy.wait_s(failure(), 1, 950.0, 0.0) is None
    assert policy.wait_s(failure(), 1, 950.0, 0.0, timeout_s=1000.0) is not None
    assert policy.wait_s(failure(), 1, 1010.0, 0.0, timeout_s=1000.0) is None
