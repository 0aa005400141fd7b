import json

import pytest
from pydantic import TypeAdapter

from sandbox_contract.messages import FunctionCall, Message, ToolCall
from trainer.model_gateway.calls import CallError, ModelReply, Usage
from trainer.model_gateway.dialects import messages

types = pytest.importorskip("anthropic.types")

TOOL = {"name": "look", "description": "Look up.", "input_schema": {"type": "object"}}
STREAM = TypeAdapter(types.RawMessageStreamEvent)
CALLING = Message(
    role="assistant",
    content="I look.",
    reasoning_content="What is it?",
    tool_calls=(ToolCall(id="call_0", function=FunctionCall(name="look", arguments='{"word": "a"}')),),
)


def request(**fields):
    body = {"model": "policy", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
    return json.dumps(body | fields).encode()


def reply(message=None, *, cut=False):
    message = message or Message(role="assistant", content="Hi")
    return ModelReply("0a1b", 1_700_000_000, message, cut, Usage(10, 2, cached=8))


def streamed(call, made):
    found = []
    for event in messages.events(call, made):
        name, data = event.decode().strip().split("\n")
        found.append(STREAM.validate_json(data.removeprefix("data: ")))
        assert name == f"event: {found[-1].type}"
    return found


def test_a_tool_whose_type_is_null_is_the_agents():
    (tool,) = messages.read(request(tools=[{**TOOL, "type": None, "description": None}])).tools
    assert (tool.function.name, tool.function.description) == ("look", "")


def test_system_tools_and_limits_are_read():
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    call = messages.read(request(system=system, tools=[TOOL], stop_sequences=["END"], stream=True))
    assert call.messages == (
        Message(role="system", content="Be brief."),
        Message(role="user", content="Hello"),
    )
    assert (call.tools[0].function.name, call.max_tokens, call.stop) == ("look", 9, ("END",))
    assert call.stream


def test_tool_results_are_messages_of_their_own_before_the_text():
    content = [
        {"type": "tool_result", "tool_use_id": "call_0", "content": [{"type": "text", "text": "found"}]},
        {"type": "tool_result", "tool_use_id": "call_1", "content": "nothing", "is_error": True},
        {"type": "text", "text": "Go on."},
    ]
    call = messages.read(request(messages=[{"role": "user", "content": content}]))
    assert call.messages == (
        Message(role="tool", tool_call_id="call_0", content="found"),
        Message(role="tool", tool_call_id="call_1", content="nothing"),
        Message(role="user", content="Go on."),
    )


def test_an_answer_read_back_is_the_message_that_was_returned():
    shown = messages.answer(messages.read(request()), reply(CALLING))
    said = {"role": "assistant", "content": shown["content"]}
    message, _ = messages.read(request(messages=[said, {"role": "user", "content": "Go on."}])).messages
    assert (message.content, message.reasoning_content) == (CALLING.content, CALLING.reasoning_content)
    assert message.tool_calls[0].function.arguments == {"word": "a"}
    assert message.tool_calls[0].id == "call_0"


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools"),
        ({"tools": [{"name": "look"}]}, "tools.0"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages.0"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": None}]}]}, "messages.0"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages.0"),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "tool_use"}]},
                    {"role": "user", "content": "Go on."},
                ]
            },
            "messages.0",
        ),
        (
            {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "It is"}]},
            "messages.1",
        ),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, "output_config.format"),
        ({"output_format": {"type": "json_schema", "schema": {}}}, "output_format"),
        ({"messages": []}, "messages"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"system": 5}, "system.str"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(fields, where):
    with pytest.raises(CallError) as failed:
        messages.read(request(**fields))
    assert (failed.value.status, failed.value.parameter) == (400, where)
    assert messages.error(failed.value)["error"]["type"] == "invalid_request_error"


def test_settings_of_sampling_are_recorded():
    call = messages.read(request(temperature=1, top_k=5, metadata={"user_id": "u"}, thinking={}))
    assert call.asked == {"temperature": 1, "top_k": 5}


def test_an_answer_is_a_message_of_the_sdk():
    made = types.Message.model_validate(messages.answer(messages.read(request()), reply(CALLING)))
    assert [block.type for block in made.content] == ["thinking", "text", "tool_use"]
    assert made.content[2].input == {"word": "a"}
    assert (made.stop_reason, made.usage.output_tokens) == ("tool_use", 2)
    assert made.usage.input_tokens + made.usage.cache_read_input_tokens == 10


def test_cached_tokens_are_left_out_where_the_engine_does_not_say_them():
    unknown = ModelReply("0a1b", 0, Message(role="assistant", content="Hi"), False, Usage(10, 2))
    made = types.Message.model_validate(messages.answer(messages.read(request()), unknown))
    assert (made.usage.input_tokens, made.usage.cache_read_input_tokens) == (10, None)


@pytest.mark.parametrize(
    ("choice", "one"),
    [
        ({"type": "auto"}, False),
        ({"type": "auto", "disable_parallel_tool_use": False}, False),
        ({"type": "auto", "disable_parallel_tool_use": True}, True),
    ],
)
def test_an_agent_may_ask_for_one_tool_call_at_a_time(choice, one):
    assert messages.read(request(tool_choice=choice)).one_tool_call is one


@pytest.mark.parametrize(("cut", "reason"), [(False, "end_turn"), (True, "max_tokens")])
def test_the_end_of_an_answer_is_named(cut, reason):
    assert messages.answer(messages.read(request()), reply(cut=cut))["stop_reason"] == reason


def test_arguments_that_are_no_object_are_shown_as_none():
    call = ToolCall(id="call_0", function=FunctionCall(name="look", arguments="[1"))
    shown = messages.answer(messages.read(request()), reply(Message(role="assistant", tool_calls=(call,))))
    assert shown["content"] == [{"type": "tool_use", "id": "call_0", "name": "look", "input": {}}]


def test_a_stream_has_the_events_of_the_sdk_in_order():
    events = streamed(messages.read(request(stream=True)), reply(CALLING))
    assert [event.type for event in events if not event.type.startswith("content")] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    assert [delta.type for delta in deltas] == [
        "thinking_delta",
        "signature_delta",
        "text_delta",
        "input_json_delta",
    ]
    assert json.loads(deltas[3].partial_json) == {"word": "a"}


def test_an_answer_that_a_stop_sequence_ended_names_it():
    call = messages.read(request(stop_sequences=["END"]))
    made = ModelReply("0a1b", 0, Message(role="assistant", content="Hi"), False, Usage(1, 1), stop="END")
    document = messages.answer(call, made)
    assert (document["stop_reason"], document["stop_sequence"]) == ("stop_sequence", "END")
    ended = streamed(call, made)[-2].delta
    assert (ended.stop_reason, ended.stop_sequence) == ("stop_sequence", "END")


@pytest.mark.parametrize(
    "arguments",
    [
        "not JSON",
        "[1]",
        "[" * 100_000,
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 1}, "b": 2}',
        '{"a": 1} and more',
    ],
)
def test_arguments_that_are_no_object_are_shown_as_an_empty_one(arguments):
    function = FunctionCall(name="look", arguments=arguments)
    message = Message(role="assistant", tool_calls=(ToolCall(id="call_0", function=function),))
    (block,) = messages.answer(messages.read(request()), reply(message))["content"]
    assert block["input"] == {}
