"""The real clients of OpenAI and Anthropic drive the server: what they send is answered and recorded."""

import json

import pytest

pytest.importorskip("openai")
pytest.importorskip("anthropic")

from tests.harness.model_calls import LOOK, calling, trained
from tests.harness.served_gateway import served

CHAT_TOOLS = [LOOK.model_dump()]
RESPONSES_TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}]
MESSAGES_TOOLS = [{"name": "look", "input_schema": {"type": "object"}}]
ASK = {"role": "user", "content": "What is 2 + 3?"}
THOUGHT = "<think>\nIt is a sum.\n</think>\n\n5"
TWICE = calling("look", "look")


async def chat_answer(client, messages, stream, **more):
    completions = client.chat.completions
    if not stream:
        return (await completions.create(model="policy", messages=messages, **more)).choices[0].message
    async with completions.stream(model="policy", messages=messages, **more) as events:
        return (await events.get_final_completion()).choices[0].message


async def messages_answer(client, messages, stream, **more):
    arguments = {"model": "policy", "messages": messages, "max_tokens": 100, **more}
    if not stream:
        return await client.messages.create(**arguments)
    async with client.messages.stream(**arguments) as events:
        return await events.get_final_message()


async def responses_answer(client, items, stream, **more):
    if not stream:
        return await client.responses.create(model="policy", input=items, **more)
    async with client.responses.stream(model="policy", input=items, **more) as events:
        return await events.get_final_response()


async def recorded(at):
    """The recording of the served session, whose trained tokens are those that the policy sampled."""
    recording = await at.session.close()
    sampled = sorted(each.token_ids for each in at.policy.sampled)
    assert sorted(trained_tokens(recording)) == sorted(token for ids in sampled for token in ids)
    return recording


def trained_tokens(recording):
    return [token for tokens in trained(recording.segments) for token in tokens]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_chat_agent_with_parallel_tool_calls_is_one_sequence(stream):
    async with served(TWICE, THOUGHT) as at, at.openai() as client:
        first = await chat_answer(client, [ASK], stream, tools=CHAT_TOOLS)
        assert [json.loads(call.function.arguments) for call in first.tool_calls] == [{"word": "a"}] * 2
        results = [{"role": "tool", "tool_call_id": call.id, "content": "found"} for call in first.tool_calls]
        said = {
            "role": "assistant",
            "content": first.content,
            "tool_calls": [call.model_dump(include={"id", "type", "function"}) for call in first.tool_calls],
        }
        second = await chat_answer(client, [ASK, said, *results], stream, tools=CHAT_TOOLS)
        assert second.content == "5"
        recording = await recorded(at)
        assert len(recording.segments) == 1
        assert [call.spliced for call in recording.calls] == [False, True]


async def test_agents_that_ask_for_one_tool_call_at_a_time_get_one_in_every_dialect():
    async with served(TWICE) as at, at.openai() as client, at.anthropic() as claude:
        said = await chat_answer(client, [ASK], False, tools=CHAT_TOOLS, parallel_tool_calls=False)
        assert len(said.tool_calls) == 1
        made = await responses_answer(client, [ASK], False, tools=RESPONSES_TOOLS, parallel_tool_calls=False)
        assert [item.type for item in made.output] == ["function_call"]
        one = {"type": "auto", "disable_parallel_tool_use": True}
        answer = await messages_answer(claude, [ASK], False, tools=MESSAGES_TOOLS, tool_choice=one)
        assert [block.type for block in answer.content] == ["tool_use"]
        assert [call.dropped for call in (await at.session.close()).calls] == [1, 1, 1]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_messages_agent_with_parallel_tool_calls_is_one_sequence(stream):
    async with served(TWICE, THOUGHT) as at, at.anthropic() as client:
        first = await messages_answer(client, [ASK], stream, tools=MESSAGES_TOOLS, system="Be brief.")
        assert [block.input for block in first.content] == [{"word": "a"}] * 2
        assert first.stop_reason == "tool_use"
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "found"} for block in first.content
        ]
        history = [
            ASK,
            {"role": "assistant", "content": [block.model_dump() for block in first.content]},
            {"role": "user", "content": results},
        ]
        second = await messages_answer(client, history, stream, tools=MESSAGES_TOOLS, system="Be brief.")
        assert [block.type for block in second.content] == ["thinking", "text"]
        assert second.content[-1].text == "5"
        recording = await recorded(at)
        assert len(recording.segments) == 1
        assert [call.spliced for call in recording.calls] == [False, True]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_responses_agent_with_parallel_tool_calls_is_one_sequence(stream):
    async with served(TWICE, THOUGHT) as at, at.openai() as client:
        first = await responses_answer(client, [ASK], stream, tools=RESPONSES_TOOLS)
        assert [item.type for item in first.output] == ["function_call", "function_call"]
        history = [ASK, *(item.model_dump(exclude_none=True) for item in first.output)]
        history += [
            {"type": "function_call_output", "call_id": item.call_id, "output": "found"}
            for item in first.output
        ]
        second = await responses_answer(client, history, stream, tools=RESPONSES_TOOLS)
        assert second.output_text == "5"
        assert [item.type for item in second.output] == ["reasoning", "message"]
        recording = await recorded(at)
        assert len(recording.segments) == 1
        assert [call.spliced for call in recording.calls] == [False, True]
