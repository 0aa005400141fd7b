"""Any body of an agent is read, or refused with a status that SDKs do not repeat."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.model_gateway.calls import CallError, ModelCall
from trainer.model_gateway.dialects import chat, messages, responses

WORDS = st.sampled_from(
    [
        "user",
        "assistant",
        "tool",
        "system",
        "text",
        "function",
        "tool_use",
        "tool_result",
        "thinking",
        "none",
        "look",
        "call_0",
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "{}",
        "{",
    ]
)
KEYS = st.sampled_from(
    [
        "role",
        "content",
        "type",
        "text",
        "name",
        "arguments",
        "tool_calls",
        "id",
        "call_id",
        "input",
        "output",
        "tool_use_id",
        "tool_call_id",
        "function",
        "thinking",
        "summary",
        "parameters",
        "input_schema",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers(-2, 10**20) | st.floats() | WORDS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
)

CALL = {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": "{}"}}
SCHEMA = {"name": "look", "description": "", "parameters": {"type": "object"}}
USE = {"type": "tool_use", "id": "call_0", "name": "look", "input": {}}
BODIES = {
    chat: {
        "model": "policy",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_0", "content": "found"},
        ],
        "tools": [{"type": "function", "function": SCHEMA}],
        "stop": ["END"],
        "stream_options": {"include_usage": True},
    },
    responses: {
        "model": "policy",
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "A greeting."}]},
            {"type": "function_call", "call_id": "call_0", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_0", "output": "found"},
        ],
        "tools": [{"type": "function", **SCHEMA}],
        "text": {"format": {"type": "text"}},
    },
    messages: {
        "model": "policy",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "A greeting."}, USE]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "call_0", "content": "found"}],
            },
        ],
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "auto"},
    },
}


def places(value, path=()):
    """The paths to all parts of a JSON value."""
    yield path
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from places(child, (*path, key))


def changed(body, path, value):
    """A body with another value at a path."""
    if not path:
        return value
    body = copy.deepcopy(body)
    at = body
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return body


def outcome(dialect, body):
    """The call, or the error that refuses it."""
    try:
        return dialect.read(json.dumps(body).encode())
    except CallError as error:
        return error


@pytest.mark.parametrize("dialect", BODIES, ids=lambda dialect: dialect.__name__.rpartition(".")[2])
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_changed_body_is_read_or_refused(dialect, data):
    body = BODIES[dialect]
    assert isinstance(outcome(dialect, body), ModelCall)
    path = data.draw(st.sampled_from(list(places(body))))
    found = outcome(dialect, changed(body, path, data.draw(JSON)))
    if isinstance(found, CallError):
        assert found.status == 400
        assert found.detail
    else:
        assert all(isinstance(message.content, str | None) for message in found.messages)
