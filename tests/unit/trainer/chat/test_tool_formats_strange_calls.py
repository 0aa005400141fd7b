"""Calls that no request can carry, or no template render, never fail a turn."""

import json

import pytest

from sandbox_contract.messages import FunctionCall, Message, ToolCall
from trainer.chat.tool_formats import TOOL_FORMATS


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": "{\\"x\\": \\"\\ud83d\\"}"}</tool_call>'),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"x": "\\ud83d"}}</tool_call>'),
        ("llama3", '{"name": "f", "parameters": "\\ud83d"}'),
        ("mistral", '[TOOL_CALLS] [{"name": "f", "arguments": "\\ud83d"}]'),
        ("phi4_mini", 'functools[{"name": "f", "arguments": "\\ud83d"}]'),
        ("pythonic", '[f(x="\\ud83d")]'),
        ("harmony", '<|channel|>commentary to=functions.f<|message|>{"x": "\\ud83d"}<|call|>'),
    ],
)
def test_half_a_character_in_a_call_can_be_sent(family: str, text: str) -> None:
    message = TOOL_FORMATS[family].parse(text)
    assert message.tool_calls
    assert message.model_dump_json()


@pytest.mark.parametrize("depth", [65, 500, 970, 991, 5000])
@pytest.mark.parametrize("family", ["hermes", "llama3", "pythonic", "glm", "gemma4", "kimi_k2", "harmony"])
def test_a_call_nested_without_end_never_fails_the_turn(family: str, depth: int) -> None:
    form, nested = TOOL_FORMATS[family], "[" * depth + "]" * depth
    made = ToolCall(function=FunctionCall(name="f", arguments='{"x": "WHERE"}'))
    written = form.render(Message(role="assistant", tool_calls=(made,)))
    for quoted in ('"WHERE"', "'WHERE'", '<|"|>WHERE<|"|>', "WHERE"):
        written = written.replace(quoted, nested)
    assert form.render(form.parse(written))


def test_brackets_in_a_text_are_no_levels() -> None:
    arguments = json.dumps({"text": '"[' * 90, "many": [[]] * 90})
    made = ToolCall(function=FunctionCall(name="f", arguments=arguments))
    message = Message(role="assistant", tool_calls=(made,))
    hermes = TOOL_FORMATS["hermes"]
    (read,) = hermes.parse(hermes.render(message)).tool_calls or ()
    assert read.function == made.function
