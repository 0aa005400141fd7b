import asyncio
import time

import pytest

from local_processes.waiting import Deadline, RetryWaits, exponential_wait_s, retry, wait_until

AT_ONCE = RetryWaits(0.0, 0.0)


class BusyError(Exception):
    pass


def attempts(*outcomes):
    """An attempt with these outcomes, one after another, that hangs afterwards; and when it was made."""
    left, made = list(outcomes), []

    async def attempt():
        made.append(len(made))
        if not left:
            await asyncio.Event().wait()
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return attempt, made


def test_a_condition_that_comes_true_ends_the_wait():
    answers = iter([False, False, True])
    assert wait_until(lambda: next(answers), Deadline.after(60), poll_s=0.001)


def test_a_condition_is_asked_once_when_the_deadline_has_passed_already():
    asked = []
    assert not wait_until(lambda: asked.append(1), Deadline.after(0), poll_s=60)
    assert asked == [1]


def test_an_error_of_the_condition_ends_the_wait():
    def broken():
        raise ConnectionError("the process has exited")

    with pytest.raises(ConnectionError, match="has exited"):
        wait_until(broken, Deadline.after(60))


def test_waits_double_up_to_the_longest_however_many_failures_there_were():
    assert [exponential_wait_s(0.5, 3.0, failures) for failures in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 3.0]
    assert exponential_wait_s(0.5, 3.0, 100_000) == 3.0


async def test_a_failed_attempt_is_made_again_until_one_succeeds():
    attempt, made = attempts(BusyError("503"), BusyError("503"), "done")
    found = await retry(attempt, BusyError, Deadline.after(60), "it was not done", waits=AT_ONCE)
    assert (found, len(made)) == ("done", 3)


async def test_the_failure_of_the_last_attempt_is_raised_as_it_is():
    attempt, made = attempts(BusyError("first"), BusyError("last"), "done")
    with pytest.raises(BusyError, match=r"^last$"):
        await retry(attempt, BusyError, Deadline.after(60), "it was not done", attempts=2, waits=AT_ONCE)
    assert len(made) == 2


async def test_failures_that_pass_by_themselves_do_not_count_as_attempts():
    class AwayError(BusyError):
        pass

    attempt, made = attempts(AwayError(), AwayError(), BusyError("first"), AwayError(), BusyError("last"))
    with pytest.raises(BusyError, match=r"^last$"):
        await retry(
            attempt,
            BusyError,
            Deadline.after(60),
            "it was not done",
            attempts=2,
            uncounted=(AwayError,),
            waits=AT_ONCE,
        )
    assert len(made) == 5


@pytest.mark.parametrize("error", [KeyError("id"), TimeoutError("of its own")])
async def test_any_other_error_ends_the_attempts(error):
    attempt, made = attempts(error, "done")
    with pytest.raises(type(error)):
        await retry(attempt, BusyError, Deadline.after(60), "it was not done", waits=AT_ONCE)
    assert len(made) == 1


async def test_an_attempt_under_way_ends_at_the_deadline_with_the_failure_before_it():
    attempt, made = attempts(BusyError("it answered 503"))
    with pytest.raises(
        BusyError, match=r"^it was not done within 0\.05 s; the last failure: it answered 503$"
    ):
        await retry(attempt, BusyError, Deadline.after(0.05), "it was not done", waits=AT_ONCE)
    assert len(made) == 2


async def test_a_first_attempt_that_hangs_is_just_late():
    attempt, _ = attempts()
    with pytest.raises(BusyError, match=r"^it was not done within 0\.01 s$"):
        await retry(attempt, BusyError, Deadline.after(0.01), "it was not done")


async def test_a_wait_beyond_the_deadline_is_not_begun():
    attempt, made = attempts(BusyError("it answered 503"), "done")
    deadline = Deadline(time.monotonic() - 5, 10)
    with pytest.raises(BusyError, match="within 10 s; the last failure: it answered 503"):
        await asyncio.wait_for(retry(attempt, BusyError, deadline, "late", waits=RetryWaits(3600, 3600)), 60)
    assert len(made) == 1
