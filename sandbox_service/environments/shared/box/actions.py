"""Read the tool calls of an assistant message, in order.

Three notations are read: OpenAI ``tool_calls``, fenced code blocks (python, bash) and ``<tool_call>`` JSON
in plain content. A call that is broken is not dropped: it becomes a call with a ``problem``, which is
shown to the model. Nothing here raises on what a model wrote, and reading a text takes time in proportion to
its length.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from .calls import TAG, ParsedCall, native_calls, plain_text, tagged_call

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

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
# The spaces before a language belong to the info: matched by a part of their own as well, a run of them
# takes quadratic time.
_OPENING = re.compile(rf"^ {{0,3}}(?P<fence>`{{3,}})(?P<info>[^`\n]*)\n|{TAG}", re.MULTILINE)


def parse_actions(message: JsonObject) -> list[ParsedCall]:
    """Return the actions of an assistant message; none when it holds no call."""
    if message.get("tool_calls"):
        actions = native_calls(message["tool_calls"])
    else:
        actions = _from_text(plain_text(message.get("content")))
    refusal = f"Not run: a message may hold at most {MAX_ACTIONS} calls."
    return [
        action if index < MAX_ACTIONS else replace(action, arguments={}, problem=refusal)
        for index, action in enumerate(actions)
    ]


def _from_text(text: str) -> list[ParsedCall]:
    actions: list[ParsedCall] = []
    position = 0
    while len(actions) <= MAX_ACTIONS and (opening := _OPENING.search(text, position)):
        if opening.group("fence") is None:
            call, position = tagged_call(text, opening.end())
            actions.append(call)
            continue
        fenced, position = _fenced(text, opening)
        if fenced is not None:
            actions.append(fenced)
    return actions


def _fenced(text: str, opening: re.Match[str]) -> tuple[ParsedCall | None, int]:
    """Return the action of a fenced block, None for a block in another language; and where it ends."""
    words = opening.group("info").split()
    language = words[0].lower() if words else ""
    closing = re.compile(rf"^ {{0,3}}`{{{len(opening.group('fence'))},}}[ \t]*$", re.MULTILINE)
    end = closing.search(text, opening.end())
    if language not in _LANGUAGES:
        return None, end.end() if end else len(text)
    tool, argument = _LANGUAGES[language]
    if end is None:
        problem = f"The {language} block is not closed with ```; it was not run."
        return ParsedCall(tool, problem=problem), len(text)
    return ParsedCall(tool, {argument: text[opening.end() : end.start()]}), end.end()
