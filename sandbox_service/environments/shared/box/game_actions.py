"""Read the action of an assistant message in a text game, in any notation that models are trained on.

Read in this order: native calls of the ``act`` tool, ``<tool_call>`` JSON, the last ``Action:`` of a ReAct
text, and else the whole text. Nothing here raises on what a model wrote.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from sandbox_service.environments.shared.box.calls import ParsedCall, parse_calls, plain_text

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

ACT = "act"
ACT_TOOL: JsonObject = {
    "type": "function",
    "function": {
        "name": ACT,
        "description": "Take one action in the game.",
        "parameters": {
            "type": "object",
            "properties": {
                "action": {"type": "string", "description": "The action, in the game's own words."}
            },
            "required": ["action"],
            "additionalProperties": False,
        },
    },
}
MOST_CHARACTERS = 2000
"""Longest action."""
# No character can be matched by two parts of it: with two, a run of spaces takes quadratic time.
_REACT = re.compile(r"^[ \t]*Action[ \t]*(?:\d+[ \t]*)?:", re.MULTILINE | re.IGNORECASE)
_FENCES = re.compile(r"^```\w*\n?|\n?```$")


def parse_moves(message: JsonObject) -> list[ParsedCall]:
    """Return calls of ``act`` with an ``action`` of one stripped text each; never empty."""
    calls = parse_calls(message)
    if calls:
        return [_checked(call) for call in calls]
    text = plain_text(message.get("content"))
    marks = deque(_REACT.finditer(text), maxlen=1)
    if marks:
        text = text[marks[0].end() :]
    return [_checked(ParsedCall(ACT, {"action": _FENCES.sub("", text.strip())}))]


def _checked(call: ParsedCall) -> ParsedCall:
    problem = call.problem or _problem_of(call)
    if problem is not None:
        return ParsedCall(call.name, {}, call.call_id, call.native, problem)
    return ParsedCall(ACT, {"action": call.arguments["action"].strip()}, call.call_id, call.native)


def _problem_of(call: ParsedCall) -> str | None:
    if call.name != ACT:
        return f'There is no tool {call.name[:64]!r}; call {ACT} with {{"action": "..."}}.'
    action = call.arguments.get("action")
    if not isinstance(action, str) or not action.strip():
        return f'{ACT} needs a text: {{"action": "..."}}.'
    if len(action) > MOST_CHARACTERS:
        return f"An action has at most {MOST_CHARACTERS} characters."
    unknown = sorted(set(call.arguments) - {"action"})
    return f"{ACT} has no argument {unknown[0]!r}." if unknown else None
