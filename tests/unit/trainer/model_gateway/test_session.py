"""The calls that a session answers, and its messages to the agent otherwise."""

import asyncio

import pytest

from tests.fakes.failing_format import FAILING, UNREAD
from tests.harness.model_calls import (
    KEY,
    LOOK,
    call,
    calling,
    result,
    sampled_tokens,
    session,
    system,
    trained_tokens,
    user,
)
from tests.harness.tiny_chat import tiny_chat
from trainer.engines.generation import Finish, Generation
from trainer.errors import EngineError, Stalled
from trainer.model_gateway.budget import ENDED, MOST_ENDED_ANSWERS, MOST_REFUSALS
from trainer.model_gateway.calls import CallError
from trainer.model_gateway.retries import RetryMarker
from trainer.types import StopReason

ASK = user("What is 2 + 3?")
BRIEF = system("Be brief.")


def breaks(recording):
    return [each.because for each in recording.calls]


def refused(caught):
    return caught.value.status, caught.value.code


MARK, AGAIN = RetryMarker(b"digest"), RetryMarker(b"digest", attempt=1)


async def test_ids_of_replies_and_tool_calls_are_unique_and_known_only_outside():
    opened, policy = session(calling("look", "look"))
    first = await opened.answer(call(ASK, tools=[LOOK]))
    calls = first.message.tool_calls
    results = [result(each) for each in calls]
    second = await opened.answer(call(ASK, first.message, *results, tools=[LOOK]))
    ids = [each.id for each in (*calls, *second.message.tool_calls)] + [first.call_id, second.call_id]
    assert len(set(ids)) == 6
    assert all(each.isalnum() for each in ids)
    assert opened.id not in policy.chat.decode(policy.asked[1].token_ids)


async def test_the_agent_asks_for_nothing_that_would_change_how_tokens_are_sampled():
    opened, policy = session("5")
    await opened.answer(call(ASK, asked={"temperature": 0.0}))
    assert policy.asked[0].sampling.temperature == 1.0
    (record,) = (await opened.close()).calls
    assert record.asked == {"temperature": 0.0}


async def test_calls_are_seeded_by_the_episode_and_routed_by_it():
    opened, policy = session("5")
    await opened.answer(call(ASK))
    await opened.answer(call(ASK))
    assert [request.key.trajectory_id for request in policy.asked] == [KEY.trajectory_id] * 2
    assert [request.key.turn for request in policy.asked] == [0, 1]
    assert policy.asked[0].seed != policy.asked[1].seed
    again, other = session("5")
    await again.answer(call(ASK))
    assert other.asked[0].seed == policy.asked[0].seed


async def test_an_answer_that_reaches_its_limit_of_tokens_is_cut():
    opened, policy = session("a long answer that goes on and on")
    reply = await opened.answer(call(ASK, max_tokens=3))
    assert reply.cut
    assert policy.asked[0].max_tokens == 3
    (segment,) = (await opened.close()).segments
    assert segment.turns[0].cut


async def test_a_marked_retry_is_answered_again_and_recorded_once():
    opened, policy = session("5", "6")
    first = await opened.answer(call(ASK), MARK)
    assert await opened.answer(call(ASK), AGAIN) == first
    recording = await opened.close()
    assert len(recording.calls) == len(policy.sampled) == 1


async def test_an_unmarked_repetition_is_another_sample():
    opened, policy = session("5", "6")
    first = await opened.answer(call(ASK), MARK)
    assert (await opened.answer(call(ASK), MARK)).call_id != first.call_id
    recording = await opened.close()
    assert len(recording.segments) == 2
    assert trained_tokens(recording) == sampled_tokens(policy)


async def test_a_retry_joins_the_call_whose_client_went_away():
    opened, policy = session("5")
    policy.gate = asyncio.Event()
    gone = asyncio.create_task(opened.answer(call(ASK), MARK))
    await policy.asked_for(1)
    gone.cancel()
    joined = asyncio.create_task(opened.answer(call(ASK), AGAIN))
    policy.gate.set()
    assert (await joined).message.content == "5"
    recording = await opened.close()
    assert len(recording.calls) == len(policy.asked) == 1


@pytest.mark.parametrize("error", [EngineError("lost"), Stalled("late"), ZeroDivisionError("a bug")])
async def test_a_failure_of_the_engine_is_no_answer_and_is_the_sessions_failure(error):
    opened, _ = session(error, "5")
    with pytest.raises(CallError) as caught:
        await opened.answer(call(ASK), MARK)
    assert refused(caught) == (503, "engine_failed")
    recording = await opened.close()
    assert recording.segments == ()
    assert isinstance(recording.failure, EngineError | Stalled)
    assert recording.calls[0].error


async def test_a_failure_that_a_retry_made_good_is_none():
    opened, policy = session(EngineError("lost"), "5")
    with pytest.raises(CallError):
        await opened.answer(call(ASK), MARK)
    await opened.answer(call(ASK), AGAIN)
    recording = await opened.close()
    assert recording.failure is None
    assert trained_tokens(recording) == sampled_tokens(policy)


async def test_a_failure_that_the_agents_own_next_call_made_good_is_none():
    opened, policy = session(EngineError("lost"), "5")
    with pytest.raises(CallError):
        await opened.answer(call(ASK), MARK)
    assert (await opened.answer(call(ASK), MARK)).message.content == "5"
    recording = await opened.close()
    assert recording.failure is None
    assert trained_tokens(recording) == sampled_tokens(policy)


async def test_a_failure_is_not_made_good_by_an_equal_call_that_was_in_progress_beside_it():
    opened, policy = session(EngineError("lost"), "5")
    policy.gate = asyncio.Event()
    both = [asyncio.create_task(opened.answer(call(ASK), MARK)) for _ in range(2)]
    await policy.asked_for(2)
    policy.gate.set()
    failed, answered = await asyncio.gather(*both, return_exceptions=True)
    assert (failed.status, answered.message.content) == (503, "5")
    assert opened.recording().failure is not None
    await opened.answer(call(ASK), AGAIN)
    assert len(policy.asked) == 3
    assert (await opened.close()).failure is None


async def test_of_equal_calls_that_failed_side_by_side_each_has_to_be_made_again():
    opened, _ = session(EngineError("lost"), EngineError("lost"), EngineError("lost"), "5", "6")
    for _ in range(2):
        await asyncio.gather(*(opened.answer(call(ASK), MARK) for _ in range(2)), return_exceptions=True)
    assert opened.recording().failure is not None, "one was made again and failed again, the other answered"
    assert (await opened.answer(call(ASK), AGAIN)).message.content == "6"
    assert (await opened.close()).failure is None


async def test_a_failure_is_not_made_good_by_the_message_of_the_episodes_end():
    opened, _ = session(EngineError("lost"))
    with pytest.raises(CallError):
        await opened.answer(call(ASK), MARK)
    opened.end_episode(StopReason.TERMINATED)
    assert (await opened.answer(call(ASK), AGAIN)).message.content == ENDED
    assert (await opened.close()).failure is not None


async def test_calls_refused_for_their_number_are_sampled_when_they_are_repeated():
    opened, policy = session("5", "6", concurrent_calls=1)
    policy.gate = asyncio.Event()
    first = asyncio.create_task(opened.answer(call(ASK), MARK))
    await policy.asked_for(1)
    with pytest.raises(CallError) as caught:
        await opened.answer(call(ASK), MARK)
    assert refused(caught) == (429, "too_many_calls")
    policy.gate.set()
    await first
    again = await opened.answer(call(ASK), AGAIN)
    assert (again.message.content, len(policy.sampled)) == ("6", 2)


async def test_tools_are_refused_where_answers_are_read_as_text_and_the_setting_is_named():
    opened, policy = session(chat=tiny_chat(tool_format="text"))
    with pytest.raises(CallError, match=r"chat\.tool_format, which is 'text'") as caught:
        await opened.answer(call(ASK, tools=[LOOK]))
    assert refused(caught) == (400, "tools_not_supported")
    assert "chat.tool_format" in str(opened.misconfigured)
    assert policy.asked == []
    assert (await opened.answer(call(ASK))).message.content == "Yes."


async def test_a_plugin_that_fails_is_no_failure_of_the_engine_and_no_mistake_of_the_agent():
    opened, _ = session(UNREAD, "5", chat=tiny_chat(tool_format=FAILING, tools="prompt"))
    with pytest.raises(CallError, match=r"failing_format.* parse raised KeyError: 'arguments'") as caught:
        await opened.answer(call(ASK), MARK)
    assert refused(caught) == (500, "misconfigured")
    unread = LOOK.model_copy(update={"function": LOOK.function.model_copy(update={"name": "unread"})})
    with pytest.raises(CallError, match="describe_tools raised") as caught:
        await opened.count_tokens(call(ASK, tools=[unread]))
    assert refused(caught) == (500, "misconfigured")
    await opened.answer(call(ASK))
    assert "describe_tools" in str(opened.rejected)
    assert "parse raised" in str((await opened.close()).failure)


@pytest.mark.parametrize(
    "generation",
    [
        Generation((), (), Finish.STOP, ()),
        Generation((1, 2), (-1.0,), Finish.STOP, ()),
        Generation((1,), (-1.0,), Finish.ABORT, ()),
    ],
    ids=["no tokens", "a log-probability is missing", "interrupted"],
)
async def test_a_generation_that_is_not_whole_is_a_failure_of_the_engine(generation):
    opened, _ = session(generation)
    with pytest.raises(CallError) as caught:
        await opened.answer(call(ASK))
    assert caught.value.status == 503


async def test_the_end_of_the_turns_is_an_ordinary_answer_that_is_not_recorded():
    opened, policy = session("5", turns=1)
    first = await opened.answer(call(ASK))
    last = await opened.answer(call(ASK, first.message, ASK))
    assert (last.message.content, last.message.tool_calls, last.cut) == (ENDED, None, False)
    recording = await opened.close()
    assert recording.limit is StopReason.HORIZON
    assert len(policy.asked) == len(recording.calls) == 1


async def test_a_full_context_ends_the_session():
    opened, policy = session("5", context_tokens=60)
    assert (await opened.answer(call(user("word " * 100)))).message.content == ENDED
    assert (await opened.answer(call(user("a")))).message.content == ENDED
    recording = await opened.close()
    assert recording.limit is StopReason.CONTEXT_FULL
    assert policy.asked == []


async def test_a_generation_that_does_not_begin_before_the_session_is_over_is_its_time_limit():
    now = [0.0]
    opened, policy = session(Stalled("not a token"), seconds=60, clock=lambda: now[0])
    policy.gate = asyncio.Event()
    waiting = asyncio.create_task(opened.answer(call(ASK)))
    await policy.asked_for(1)
    now[0] = 61.0
    policy.gate.set()
    assert (await waiting).message.content == ENDED
    recording = await opened.close()
    assert (recording.limit, recording.failure) == (StopReason.TIME_LIMIT, None)


async def test_an_agent_that_never_ends_is_refused():
    opened, policy = session("5", turns=1)
    await opened.answer(call(ASK))
    for _ in range(MOST_ENDED_ANSWERS):
        assert (await opened.answer(call(ASK))).message.content == ENDED
    with pytest.raises(CallError) as caught:
        await opened.answer(call(ASK))
    assert refused(caught) == (409, "session_ended")
    assert len(policy.asked) == 1


async def test_an_agent_that_loops_on_errors_is_refused():
    opened, policy = session(EngineError("lost"))
    for _ in range(MOST_REFUSALS):
        with pytest.raises(CallError):
            await opened.answer(call(ASK))
    with pytest.raises(CallError) as caught:
        await opened.answer(call(ASK))
    assert refused(caught) == (409, "too_many_errors")
    assert len(policy.asked) == MOST_REFUSALS


async def test_a_sealed_session_takes_no_calls():
    opened, policy = session("5")
    opened.seal()
    for asked in (opened.answer, opened.count_tokens):
        with pytest.raises(CallError) as caught:
            await asked(call(ASK))
        assert refused(caught) == (409, "session_sealed")
    assert policy.asked == []


async def test_a_call_in_progress_when_the_session_is_sealed_is_not_recorded():
    opened, policy = session("5")
    policy.gate = asyncio.Event()
    waiting = asyncio.create_task(opened.answer(call(ASK)))
    await policy.asked_for(1)
    opened.seal()
    policy.gate.set()
    with pytest.raises(CallError) as caught:
        await waiting
    assert refused(caught) == (409, "session_sealed")
    assert (await opened.close()).segments == ()


async def test_closing_ends_the_calls_in_progress():
    opened, policy = session("5")
    policy.gate = asyncio.Event()
    waiting = [asyncio.create_task(opened.answer(call(ASK))) for _ in range(3)]
    await policy.asked_for(3)
    recording = await opened.close()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [outcome.status for outcome in outcomes] == [409] * 3
    assert recording.segments == ()


async def test_a_conversation_that_the_template_does_not_take_is_the_callers_fault(tmp_path):
    template = tmp_path / "template.jinja"
    template.write_text(
        "{% for m in messages %}{% if m.content == 'No.' %}{{ raise_exception('never No') }}{% endif %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    opened, policy = session("5", chat=tiny_chat(template=template))
    for asked in (opened.answer, opened.count_tokens):
        with pytest.raises(CallError, match="never No") as caught:
            await asked(call(user("No.")))
        assert refused(caught) == (400, "invalid_request")
    assert policy.asked == []


async def test_counting_tokens_records_nothing():
    opened, policy = session("5")
    count = await opened.count_tokens(call(ASK))
    await opened.answer(call(ASK))
    assert count == len(policy.asked[0].token_ids)
    assert len((await opened.close()).calls) == 1
