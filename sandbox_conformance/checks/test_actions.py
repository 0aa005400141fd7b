"""Each message of a model is answered to the model; only the end of an episode is an error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sandbox_client.errors import ConflictError, InstanceLost, StepTimeout
from sandbox_conformance.actions import (
    BROKEN_NATIVE_ARGUMENTS,
    BROKEN_TEXT_CALLS,
    NO_TOOL,
    NONSENSE,
    idle,
    junk,
    mistyped,
    native,
    say,
)
from sandbox_conformance.subject import Subject
from sandbox_contract.problems import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sandbox_client import AsyncEpisode
    from sandbox_conformance.subject import Json
    from sandbox_contract.episodes import StepResult

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(600)]

_STEPS_WORTH_PLAYING = 200


async def each_answer(subject: Subject, messages: Iterable[Json]) -> list[StepResult]:
    """The answers to messages, in as few episodes as their ends allow; each episode is graded, too."""
    results: list[StepResult] = []
    waiting = list(messages)
    while waiting:
        async with subject.episode() as episode:
            while waiting and not episode.finished:
                results.append(await episode.step(waiting.pop(0)))
            check_nothing_raised(results[-1].info)
            check_nothing_raised((await episode.evaluate()).details)
    return results


def check_nothing_raised(info: Mapping[str, object]) -> None:
    """Whatever a model writes, step and grading raise nothing: the runner makes results of exceptions."""
    assert not info.keys() & {"exception", "exhausted"}, info


def check_answered(result: StepResult) -> None:
    check_nothing_raised(result.info)
    assert result.observation.messages
    assert {message.role for message in result.observation.messages} <= {"user", "tool"}
    assert all(isinstance(message.content, str) for message in result.observation.messages)


async def need_tools(subject: Subject) -> list[Json]:
    tools = await subject.tools()
    if not tools:
        pytest.skip(f"{subject.name} has no tools")
    return tools


async def test_nonsense_is_answered(subject: Subject) -> None:
    for result in await each_answer(subject, map(say, NONSENSE)):
        check_answered(result)


async def test_a_message_without_content_is_answered(subject: Subject) -> None:
    bare: list[Json] = [{"role": "assistant"}, {"role": "assistant", "content": None, "tool_calls": []}]
    for result in await each_answer(subject, bare):
        check_answered(result)


async def test_broken_calls_in_text_are_answered(subject: Subject) -> None:
    tools = await subject.tools()
    for result in await each_answer(subject, map(say, BROKEN_TEXT_CALLS)):
        check_answered(result)
        assert not tools or any(message.content for message in result.observation.messages)


async def test_a_broken_call_is_not_taken_for_no_call(subject: Subject) -> None:
    await need_tools(subject)
    told = []
    for text in ("I do not know what to do.", "<tool_call>{</tool_call>"):
        async with subject.episode() as episode:
            told.append((await episode.step(say(text))).observation)
    assert told[0] != told[1]


async def test_a_call_of_an_unknown_tool_is_answered_by_its_name(subject: Subject) -> None:
    await need_tools(subject)
    written = json.dumps({"name": NO_TOOL, "arguments": {}})
    in_text = say(f"<tool_call>{written}</tool_call>")
    for result in await each_answer(subject, [native(NO_TOOL, {}), in_text]):
        assert NO_TOOL in str(result.observation.messages[0].content)


async def test_broken_arguments_of_native_calls_are_answered(subject: Subject) -> None:
    tools = await subject.tools()
    names = [tool["function"]["name"] for tool in tools[:2]] + [NO_TOOL, "", "x" * 100_000, "a b\x00\n"]
    messages = [native(names[0], each) for each in BROKEN_NATIVE_ARGUMENTS]
    messages += [native(name, {}) for name in names[1:]]
    for message, result in zip(messages, await each_answer(subject, messages), strict=True):
        check_answered(result)
        if tools:
            told = [each for each in result.observation.messages if each.role == "tool"]
            assert [each.tool_call_id for each in told] == ["call_0"], message
            assert all(each.content for each in told)


async def test_arguments_of_wrong_types_are_answered(subject: Subject) -> None:
    tools = await need_tools(subject)
    for result in await each_answer(subject, mistyped(tools)):
        check_answered(result)
        assert result.observation.messages[0].content


async def test_each_native_call_is_answered_by_a_tool_message_with_its_id(subject: Subject) -> None:
    await need_tools(subject)
    ids = ["call_b", "call_a", "x" * 64]
    async with subject.episode() as episode:
        result = await episode.step(native(NO_TOOL, {}, {}, {}, ids=ids))
        assert [each.tool_call_id for each in result.observation.messages if each.role == "tool"] == ids
    for message in subject.reference():
        called = [call["id"] for call in message.get("tool_calls") or ()]
        if called:
            async with subject.episode() as episode:
                result = await episode.step(message)
            answered = [each.tool_call_id for each in result.observation.messages if each.role == "tool"]
            assert answered == called
            break


async def test_native_calls_without_an_id_are_answered_by_tool_messages_with_ids_of_their_own(
    subject: Subject,
) -> None:
    await need_tools(subject)
    unnamed = {"type": "function", "function": {"name": NO_TOOL, "arguments": None}}
    message: Json = {"role": "assistant", "tool_calls": [unnamed, {**unnamed, "id": ""}]}
    async with subject.episode() as episode:
        results = [await episode.step(message) for _ in range(2)]
    told = [each for result in results for each in result.observation.messages if each.role == "tool"]
    assert [each.tool_call_id for each in told] == ["call_0_0", "call_0_1", "call_1_0", "call_1_1"]


async def test_a_hundred_calls_in_a_message_are_answered_one_by_one(subject: Subject) -> None:
    tools = await need_tools(subject)
    async with subject.episode() as episode:
        result = await episode.step(native(tools[0]["function"]["name"], *[{}] * 100))
    told = [each.tool_call_id for each in result.observation.messages if each.role == "tool"]
    assert told == [f"call_{number}" for number in range(100)]


async def test_what_is_no_message_is_refused_and_no_step(subject: Subject) -> None:
    async with subject.episode() as episode:
        bodies = [
            '"text"',
            "null",
            "[]",
            "{}",
            '{"role": "user", "content": "I am the user"}',
            '{"role": "assistant", "content": {"text": "x"}}',
            '{"role": "assistant", "content": "\\ud800"}',
            '{"role": "assistant", "tool_calls": {}}',
            '{"role": "assistant", "tool_calls": [{"function": {"name": "x", "arguments": [1]}}]}',
            '{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}',
        ]
        for body in bodies:
            request = f'{{"instance_id": "{episode.instance_id}", "message": {body}}}'
            answer = await subject.http.post("/v1/step", content=request)
            assert answer.status_code in (400, 422), (body, answer.text)
            assert answer.json()["failure_class"] == "request"
        assert (await subject.client.instance(episode.instance_id)).step_index == 0
        await subject.play(episode, subject.reference())
        assert (await episode.evaluate()).score == 1.0


async def test_a_step_with_another_index_is_refused_and_no_step(subject: Subject) -> None:
    async with subject.episode() as episode:
        for index in (1, 1_000_000):
            with pytest.raises(ConflictError) as caught:
                await subject.client.step(episode.instance_id, "too early", step_index=index)
            assert caught.value.code == ErrorCode.STEP_INDEX_MISMATCH
        assert (await subject.client.instance(episode.instance_id)).step_index == 0


async def test_a_step_after_the_end_is_a_conflict(subject: Subject) -> None:
    async with subject.episode() as episode:
        results = await subject.play(episode, subject.reference())
        assert [result.terminated for result in results] == [False] * (len(results) - 1) + [True]
        for message in (say("more"), subject.reference()[0]):
            with pytest.raises(ConflictError) as caught:
                await subject.client.step(episode.instance_id, message)
            assert caught.value.code == ErrorCode.INSTANCE_FINISHED
        assert (await subject.client.instance(episode.instance_id)).state == "finished"
        assert (await episode.evaluate()).score == 1.0


async def test_an_episode_ends_at_its_step_limit_at_the_latest(subject: Subject) -> None:
    limit = subject.catalog.payload(subject.task).max_steps
    if limit > _STEPS_WORTH_PLAYING:
        pytest.skip(f"episodes of {subject.name} may have {limit} steps")
    action = idle(await subject.tools())
    async with subject.episode() as episode:
        results = await subject.play(episode, [action] * (limit + 1))
        assert len(results) <= limit
        assert results[-1].truncated or results[-1].terminated
        assert not any(result.truncated for result in results[:-1])
        assert not (await episode.evaluate()).success


async def test_actions_that_lead_nowhere_earn_nothing_beyond_the_range(subject: Subject) -> None:
    low, high = subject.described.reward_range
    async with subject.episode() as episode:
        for message in list(junk(await subject.tools()))[: len(subject.reference()) - 1]:
            if episode.finished:
                break
            result = await episode.step(message)
            assert low - 1.0 <= result.reward <= high
            assert low <= (await episode.evaluate()).score <= high


async def test_a_step_past_its_deadline_is_a_typed_error_and_no_reward(subject: Subject) -> None:
    slow = say("```python\nimport time\ntime.sleep(60)\n```")
    action, timeout_s = (slow, 1.0) if subject.described.capabilities.agent_code else (say("slow"), 0.001)
    async with subject.episode() as episode:
        try:
            result = await episode.step(action, timeout_s=timeout_s)
        except StepTimeout:
            await check_after_timeout(subject, episode)
        else:
            assert result.reward == 0.0 or not subject.described.capabilities.agent_code
    assert await subject.solve() == 1.0


async def check_after_timeout(subject: Subject, episode: AsyncEpisode) -> None:
    """The step was none; the instance goes on without it where it can be rebuilt, and is lost elsewhere."""
    if subject.described.capabilities.deterministic:
        await subject.play(episode, subject.reference())
        assert (await episode.evaluate()).score == 1.0
        return
    with pytest.raises(InstanceLost):
        await episode.evaluate()
