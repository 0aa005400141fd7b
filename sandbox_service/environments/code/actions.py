"""What the agent wants done: an assistant message in, tool calls in order out.

Three notations are read: OpenAI ``tool_calls``, fenced code blocks (python, bash) and ``<tool_call>`` JSON
in plain content. A call that is broken is not dropped: it becomes an action with a ``problem``, which is
told to the model. Nothing here raises on what a model wrote.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["MAX_ACTIONS", "Action", "parse_actions"]

JsonObject = dict[str, Any]

MAX_ACTIONS = 16
"""Calls of one message that are run; later ones are refused, not ignored."""

_LANGUAGES = {
    "python": ("python", "code"),
    "python3": ("python", "code"),
    "py": ("python", "code"),
    "bash": ("execute_bash", "command"),
    "sh": ("execute_bash", "command"),
    "shell": ("execute_bash", "command"),
}
_OPENING = re.compile(r"^ {0,3}(?P<fence>`{3,})[ \t]*(?P<info>[^`\n]*)\n|<tool_call>", re.MULTILINE)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_CALL_END = "</tool_call>"


@dataclass(frozen=True, slots=True)
class Action:
    """One tool call, whichever notation it was written in."""

    tool: str
    arguments: JsonObject = field(default_factory=dict)
    call_id: str | None = None
    """The id of a native call."""
    native: bool = False
    """It was a native call, so a tool message answers it."""
    problem: str | None = None
    """Why it cannot be run, for the model."""


def parse_actions(message: JsonObject) -> list[Action]:
    """The actions of an assistant message; none when it holds no call."""
    calls = message.get("tool_calls")
    if calls:
        listed = calls if isinstance(calls, list) else [calls]
        actions = [_native(call) for call in listed]
    else:
        actions = _from_text(_text(message.get("content")))
    refusal = f"Not run: a message may hold at most {MAX_ACTIONS} calls."
    return [
        action if index < MAX_ACTIONS else Action(action.tool, {}, action.call_id, action.native, refusal)
        for index, action in enumerate(actions)
    ]


def _native(call: object) -> Action:
    function = call.get("function") if isinstance(call, dict) else None
    call_id = call.get("id") if isinstance(call, dict) else None
    call_id = call_id if isinstance(call_id, str) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return Action("", call_id=call_id, native=True, problem="The tool call has no function name.")
    arguments, problem = _arguments(function.get("arguments"))
    return Action(function["name"], arguments, call_id, native=True, problem=problem)


def _arguments(given: object) -> tuple[JsonObject, str | None]:
    """An arguments object and no problem, or an empty one and the problem."""
    if given is None or given == "":
        return {}, None
    if isinstance(given, str):
        try:
            given = json.loads(given, strict=False)
        except (ValueError, RecursionError) as error:
            return {}, f"The arguments are not valid JSON: {error}."
    if not isinstance(given, dict):
        return {}, f"The arguments must be a JSON object, not {type(given).__name__}."
    return given, None


def _text(content: object) -> str:
    """The text of a message without the model's thoughts, which may hold drafts of calls."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    if not isinstance(content, str):
        return ""
    text = _THOUGHT.sub("", content.replace("\r\n", "\n"))
    # Chat templates that open the thought themselves leave only its end in the message.
    return text.rpartition("</think>")[2]


def _from_text(text: str) -> list[Action]:
    actions: list[Action] = []
    position = 0
    while opening := _OPENING.search(text, position):
        if opening.group("fence") is None:
            action, position = _tagged(text, opening.end())
            actions.append(action)
            continue
        fenced, position = _fenced(text, opening)
        if fenced is not None:
            actions.append(fenced)
    return actions


def _fenced(text: str, opening: re.Match[str]) -> tuple[Action | None, int]:
    """The action of a fenced block, None for a block in another language; and where it ends."""
    words = opening.group("info").split()
    language = words[0].lower() if words else ""
    closing = re.compile(rf"^ {{0,3}}`{{{len(opening.group('fence'))},}}[ \t]*$", re.MULTILINE)
    end = closing.search(text, opening.end())
    if language not in _LANGUAGES:
        return None, end.end() if end else len(text)
    tool, argument = _LANGUAGES[language]
    if end is None:
        problem = f"The {language} block is not closed with ```; it was not run."
        return Action(tool, problem=problem), len(text)
    return Action(tool, {argument: text[opening.end() : end.start()]}), end.end()


def _tagged(text: str, start: int) -> tuple[Action, int]:
    """The action of a ``<tool_call>`` whose JSON begins at ``start``, and where it ends."""
    begin = start + len(text[start:]) - len(text[start:].lstrip())
    try:
        # The decoder, not the closing tag, finds the end: the tag may occur inside a string.
        call, end = json.JSONDecoder(strict=False).raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        close = text.find(_CALL_END, start)
        end = len(text) if close < 0 else close + len(_CALL_END)
        return Action("", problem=f"The <tool_call> does not hold valid JSON: {error}."), end
    close = text.find(_CALL_END, end)
    end = len(text) if close < 0 else close + len(_CALL_END)
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return Action("", problem='<tool_call> must hold {"name": ..., "arguments": {...}}.'), end
    arguments, problem = _arguments(call.get("arguments", call.get("parameters")))
    return Action(call["name"], arguments, problem=problem), end
