"""Messages become texts, and actions become messages."""

import pytest
from pydantic import ValidationError

from sandbox_client.adapters.conversation import assistant_message, text_of, tool_call_message
from sandbox_contract.messages import Message


def test_a_text_has_all_contents_with_an_empty_line_between_two():
    messages = [
        Message(role="system", content="a"),
        Message(role="assistant"),
        Message(role="user", content="b"),
    ]
    assert text_of(messages) == "a\n\nb"


def test_an_action_is_a_text_or_a_message():
    assert assistant_message("go").content == "go"
    assert assistant_message({"content": None, "tool_calls": []}).role == "assistant"


def test_a_mapping_that_is_no_message_is_refused():
    with pytest.raises(ValidationError):
        assistant_message({"content": 1})


def test_a_tool_call_carries_its_arguments_as_json():
    (call,) = tool_call_message("add", {"a": 1}, "c").tool_calls
    assert (call.id, call.function.name, call.function.arguments) == ("c", "add", '{"a": 1}')
