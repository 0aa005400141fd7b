"""Tools as a paragraph of the system prompt."""

from __future__ import annotations

import json

from sandbox_contract.tool_prompt import tool_prompt
from sandbox_service.environments.shared.box.calls import parse_calls

_ADD = {"type": "function", "function": {"name": "add", "description": "Zählt zusammen.", "parameters": {}}}
_SUB = {"type": "function", "function": {"name": "sub", "description": "", "parameters": {}}}


def test_every_tool_is_a_line_of_json_between_the_tags() -> None:
    told = tool_prompt([_ADD, _SUB])

    within = told.split("\n<tools>\n")[1].split("\n</tools>\n")[0]
    assert [json.loads(line) for line in within.splitlines()] == [_ADD, _SUB]


def test_letters_beyond_ascii_stay_as_they_are() -> None:
    assert "Zählt" in tool_prompt([_ADD])


def test_the_notation_that_it_teaches_is_the_one_that_environments_read() -> None:
    shown = tool_prompt([_ADD]).rpartition("<tool_call></tool_call>:\n")[2]
    written = shown.replace("<function>", "add").replace("{...}", '{"a": 1}')

    (call,) = parse_calls({"role": "assistant", "content": written})

    assert (call.name, call.arguments, call.problem) == ("add", {"a": 1}, None)
