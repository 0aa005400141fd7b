import asyncio

import pytest

from trainer.model_gateway.calls import CallError
from trainer.model_gateway.retries import Retries, RetryMarker

FIRST = RetryMarker(b"body")
AGAIN = RetryMarker(b"body", attempt=1)
NAMED = RetryMarker(b"body", key="k")


@pytest.fixture
def now():
    return [0.0]


@pytest.fixture
def retries(now):
    return Retries(clock=lambda: now[0])


def running():
    return asyncio.get_running_loop().create_future()


async def finished(reply="reply"):
    answer = running()
    answer.set_result(reply)
    return answer


async def settled():
    """Let callbacks of finished futures run."""
    await asyncio.sleep(0)


@pytest.mark.parametrize(("first", "again"), [(FIRST, AGAIN), (NAMED, NAMED)], ids=["marked", "named"])
async def test_a_repetition_gets_the_answer_of_the_call_in_progress_and_after_it(retries, first, again):
    answer = running()
    retries.keep(first, answer)
    assert retries.find(again) is answer
    answer.set_result("reply")
    await settled()
    assert retries.find(again) is answer


async def test_an_unmarked_call_with_the_same_body_is_a_new_one(retries):
    retries.keep(FIRST, await finished())
    assert retries.find(FIRST) is None


async def test_a_marked_call_with_another_body_is_a_new_one(retries):
    retries.keep(FIRST, await finished())
    assert retries.find(RetryMarker(b"other", attempt=1)) is None


async def test_a_marked_call_repeats_the_last_one_with_its_body(retries):
    retries.keep(FIRST, await finished("one"))
    retries.keep(FIRST, await finished("two"))
    await settled()
    assert await retries.find(AGAIN) == "two"


async def test_a_key_with_another_body_is_refused(retries):
    retries.keep(NAMED, await finished())
    with pytest.raises(CallError) as refused:
        retries.find(RetryMarker(b"other", key="k"))
    assert refused.value.status == 400


async def test_a_failed_call_is_sampled_again(retries):
    failed, cancelled = running(), running()
    retries.keep(FIRST, failed)
    retries.keep(NAMED, cancelled)
    failed.set_exception(CallError(503, "engine_failed", "lost"))
    cancelled.cancel()
    await settled()
    assert retries.find(AGAIN) is None
    assert retries.find(NAMED) is None


async def test_a_repetition_stands_for_a_failed_call_before_one_that_was_answered_with_its_body(retries):
    failed = running()
    retries.keep(FIRST, failed)
    later = await finished()
    retries.keep(FIRST, later)
    failed.set_exception(CallError(503, "engine_failed", "lost"))
    await settled()
    assert retries.find(AGAIN) is None
    assert retries.find(AGAIN) is later


async def test_a_last_attempt_that_failed_leaves_nothing_to_the_next_call_with_its_body(retries):
    for attempt in (0, 1):
        failed = running()
        assert retries.find(RetryMarker(b"body", attempt=attempt)) is None
        retries.keep(RetryMarker(b"body", attempt=attempt), failed)
        failed.set_exception(CallError(503, "engine_failed", "lost"))
        await settled()
    slow = running()
    retries.keep(FIRST, slow)
    assert retries.find(AGAIN) is slow


async def test_a_call_that_failed_long_ago_is_repeated_no_more(retries, now):
    retries.count_unanswered(FIRST)
    slow = running()
    retries.keep(FIRST, slow)
    now[0] = 61.0
    assert retries.find(AGAIN) is slow


async def test_a_call_that_fails_for_its_repetition_too_is_sampled_for_the_one_after(retries):
    slow = running()
    retries.keep(FIRST, slow)
    assert retries.find(AGAIN) is slow
    slow.set_exception(CallError(503, "engine_failed", "lost"))
    await settled()
    retries.keep(FIRST, running())
    assert retries.find(RetryMarker(b"body", attempt=2)) is None


async def test_each_refused_call_is_sampled_once_however_many_have_its_body(retries):
    answer = await finished()
    retries.keep(FIRST, answer)
    for _ in range(2):
        retries.count_unanswered(FIRST)
    assert [retries.find(AGAIN) for _ in range(3)] == [None, None, answer]


async def test_repetitions_of_equal_calls_get_different_answers(retries):
    answers = [await finished("one"), await finished("two")]
    for answer in answers:
        retries.keep(FIRST, answer)
    await settled()
    assert [await retries.find(AGAIN) for _ in range(3)] == ["two", "one", "two"]


async def test_of_equal_calls_one_in_progress_is_repeated_first(retries):
    slow = running()
    retries.keep(FIRST, slow)
    retries.keep(FIRST, await finished())
    await settled()
    assert retries.find(AGAIN) is slow


async def test_a_call_with_a_key_is_repeated_by_its_key_alone(retries):
    answer = await finished()
    retries.keep(NAMED, answer)
    retries.count_unanswered(FIRST)
    retries.count_unanswered(NAMED)
    assert retries.find(NAMED) is answer
    assert [retries.find(AGAIN), retries.find(AGAIN)] == [None, None]


async def test_old_answers_are_forgotten(retries, now):
    retries.keep(FIRST, await finished())
    await settled()
    now[0] = 601.0
    assert retries.find(AGAIN) is None


async def test_of_many_answers_the_last_few_are_kept_and_all_in_progress(retries):
    slow = running()
    retries.keep(RetryMarker(b"slow"), slow)
    for number in range(100):
        retries.keep(RetryMarker(b"%d" % number), await finished())
        await settled()
    assert retries.find(RetryMarker(b"slow", attempt=1)) is slow
    kept = [number for number in range(100) if retries.find(RetryMarker(b"%d" % number, attempt=1))]
    assert kept == list(range(36, 100))


async def test_calls_without_a_marker_are_new(retries):
    retries.keep(None, await finished())
    assert retries.find(None) is None
