"""What the agent wants done: an assistant message in, tool calls in order out.

Three notations are read: OpenAI ``tool_calls``, fenced code blocks (python, bash) and ``<tool_call>`` JSON
in plain content. A call that is broken is not dropped: it becomes an action with a ``problem``, which is
told to the model. Nothing here raises on what a model wrote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from sandbox_service.environments.actions.calls import TAG, Call, native_calls, plain_text, tagged_call

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
_OPENING = re.compile(rf"^ {{0,3}}(?P<fence>`{{3,}})[ \t]*(?P<info>[^`\n]*)\n|{TAG}", re.MULTILINE)


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
    if message.get("tool_calls"):
        actions = [_acted(call) for call in native_calls(message["tool_calls"])]
    else:
        actions = _from_text(plain_text(message.get("content")))
    refusal = f"Not run: a message may hold at most {MAX_ACTIONS} calls."
    return [
        action if index < MAX_ACTIONS else Action(action.tool, {}, action.call_id, action.native, refusal)
        for index, action in enumerate(actions)
    ]


def _acted(call: Call) -> Action:
    return Action(call.name, call.arguments, call.call_id, call.native, call.problem)


def _from_text(text: str) -> list[Action]:
    actions: list[Action] = []
    position = 0
    while opening := _OPENING.search(text, position):
        if opening.group("fence") is None:
            call, position = tagged_call(text, opening.end())
            actions.append(_acted(call))
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
