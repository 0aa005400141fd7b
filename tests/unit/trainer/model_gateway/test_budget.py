import pytest

from tests.harness.model_calls import limits
from trainer.model_gateway.budget import MOST_ENDED_ANSWERS, MOST_REFUSALS, Budget
from trainer.model_gateway.calls import CallError
from trainer.types import StopReason


def answer(budget, sampled=10):
    assert budget.begin(0.0)
    budget.count_answer(sampled)
    budget.finish()


def test_calls_begin_until_the_limit_of_turns():
    budget = Budget(limits(turns=2), opened_at=0.0)
    answer(budget)
    answer(budget)
    assert not budget.begin(0.0)
    assert budget.reached is StopReason.HORIZON


def test_a_call_that_failed_is_no_turn():
    budget = Budget(limits(turns=1), opened_at=0.0)
    assert budget.begin(0.0)
    budget.finish()
    assert budget.begin(0.0)


def test_calls_begin_until_the_time_is_over():
    budget = Budget(limits(seconds=60), opened_at=100.0)
    assert budget.begin(159.0)
    assert not budget.begin(160.0)
    assert budget.reached is StopReason.TIME_LIMIT


def test_calls_begin_until_the_tokens_of_the_session_are_sampled():
    budget = Budget(limits(sampled_tokens=15), opened_at=0.0)
    answer(budget)
    answer(budget)
    assert not budget.begin(0.0)
    assert budget.reached is StopReason.CONTEXT_FULL


def test_the_first_limit_stays_the_reason():
    budget = Budget(limits(turns=1, seconds=60), opened_at=0.0)
    budget.end_episode(StopReason.CONTEXT_FULL)
    budget.end_episode(StopReason.TIME_LIMIT)
    assert not budget.begin(0.0)
    assert budget.reached is StopReason.CONTEXT_FULL


def test_more_calls_at_once_than_allowed_are_told_to_wait():
    budget = Budget(limits(concurrent_calls=1), opened_at=0.0)
    assert budget.begin(0.0)
    with pytest.raises(CallError) as refused:
        budget.begin(0.0)
    assert refused.value.status == 429
    budget.finish()
    assert budget.begin(0.0)


@pytest.mark.parametrize(
    ("prompt", "asked", "room"),
    [
        (100, None, 200),
        (3900, None, 100),
        (3900, 50, 50),
        (3984, None, 16),
        (3985, None, 0),
        (9000, None, 0),
    ],
)
def test_an_answer_fits_the_context_the_turn_and_what_was_asked_for(prompt, asked, room):
    assert Budget(limits(context_tokens=4000, turn_tokens=200), 0.0).room(prompt, asked) == room


def test_the_last_answer_has_what_is_left_of_the_sessions_tokens():
    budget = Budget(limits(sampled_tokens=30), 0.0)
    answer(budget, sampled=20)
    assert budget.room(100, None) == 10


def test_turns_that_are_shorter_than_a_usual_answer_are_allowed():
    assert Budget(limits(turn_tokens=4), 0.0).room(100, None) == 4


def test_a_call_may_take_its_own_time_and_no_more_than_the_sessions():
    budget = Budget(limits(seconds=60, turn_seconds=40), opened_at=0.0)
    assert [budget.seconds_left(now) for now in (0.0, 30.0, 70.0)] == [40, 30, 0]


def test_an_ended_session_answers_a_few_calls_more():
    budget = Budget(limits(), 0.0)
    for _ in range(MOST_ENDED_ANSWERS):
        budget.count_ended_answer()
    with pytest.raises(CallError) as refused:
        budget.count_ended_answer()
    assert refused.value.status == 409


def test_failures_in_a_row_end_in_a_refusal_without_a_look():
    budget = Budget(limits(), 0.0)
    for _ in range(MOST_REFUSALS):
        budget.check()
        budget.refuse()
    with pytest.raises(CallError) as refused:
        budget.check()
    assert (refused.value.status, refused.value.code) == (409, "too_many_errors")


def test_an_answer_between_failures_is_forgiving():
    budget = Budget(limits(), 0.0)
    for _ in range(MOST_REFUSALS - 1):
        budget.refuse()
    answer(budget)
    budget.refuse()
    budget.check()
