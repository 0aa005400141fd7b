"""Read the action of an assistant message: tool calls, or the tags with which Search-R1 models are trained.

Nothing here raises on what a model wrote, and reading takes time in proportion to its length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.environments.shared.box.calls import ParsedCall, parse_calls, plain_text

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

SEARCH, SUBMIT = "search", "submit"
_ARGUMENTS = {SEARCH: "query", SUBMIT: "answer"}
_TAGS = {"search": SEARCH, "answer": SUBMIT}
MOST_CHARACTERS = 2000
"""Longest query or answer."""


def _tool(name: str, description: str, argument: str, meaning: str) -> JsonObject:
    parameters = {
        "type": "object",
        "properties": {argument: {"type": "string", "description": meaning}},
        "required": [argument],
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": parameters},
    }


TOOLS = (
    _tool(SEARCH, "Search the encyclopedia.", "query", "Words to look for."),
    _tool(SUBMIT, "Submit the answer. This ends the episode.", "answer", "A name or a number."),
)


def parse_actions(message: JsonObject) -> list[ParsedCall]:
    """Return calls with one text each, or with a problem; none when the message has no action."""
    calls = parse_calls(message)
    if calls:
        return [_checked(call) for call in calls]
    return [_checked(each) for each in _tagged(plain_text(message.get("content")))]


def _tagged(text: str) -> list[ParsedCall]:
    """Return the last complete element of the text as a call."""
    ends = {text.rfind(f"</{tag}>"): tag for tag in _TAGS}
    end = max(ends)
    if end < 0:
        return []
    tag = ends[end]
    begin = text.rfind(f"<{tag}>", 0, end)
    if begin < 0:
        return []
    name = _TAGS[tag]
    return [ParsedCall(name, {_ARGUMENTS[name]: text[begin + len(tag) + 2 : end].strip()})]


def _checked(call: ParsedCall) -> ParsedCall:
    problem = call.problem or _problem_of(call)
    return ParsedCall(call.name, {}, call.call_id, call.native, problem) if problem else call


def _problem_of(call: ParsedCall) -> str | None:
    if call.name not in _ARGUMENTS:
        return f"There is no tool {call.name[:64]!r}; there are: {', '.join(_ARGUMENTS)}."
    argument = _ARGUMENTS[call.name]
    text = call.arguments.get(argument)
    if not isinstance(text, str):
        return f"{call.name} needs the text {argument!r}."
    if len(text) > MOST_CHARACTERS:
        return f"{argument!r} has at most {MOST_CHARACTERS} characters."
    unknown = sorted(set(call.arguments) - {argument})
    return f"{call.name} has no argument {unknown[0][:64]!r}." if unknown else None


def text_of(call: ParsedCall) -> str:
    """Return the text of a call without a problem."""
    text: str = call.arguments[_ARGUMENTS[call.name]]
    return text
