"""Read the code to run from an assistant message: a block of Python, or calls of the tool ``appworld``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_service.environments.shared.box.calls import TAG, native_calls, parse_calls, plain_text

from .prompts import NOTHING_TO_RUN

if TYPE_CHECKING:
    from sandbox_service.environments.shared.box.calls import ParsedCall
    from sandbox_service.wire.json_types import JsonObject


_OPENING = "```python"
_CLOSING = "```"


@dataclass(frozen=True, slots=True)
class Action:
    """Code to run, or why there is none."""

    code: str = ""
    problem: str | None = None
    call_id: str | None = None
    native: bool = False


def read_actions(message: JsonObject, *, simple: bool) -> list[Action]:
    """Return the actions of a message: all native calls, or the first block or call of its text."""
    if message.get("tool_calls"):
        return [_from_call(call) for call in native_calls(message["tool_calls"])]
    text = plain_text(message.get("content"))
    if simple:
        return [Action(text) if text.strip() else Action(problem="Nothing was run: the message is empty.")]
    code = _first_block(text)
    if code is None and TAG in text:
        return [_from_call(parse_calls(message)[0])]
    return [Action(problem=NOTHING_TO_RUN) if code is None else Action(code)]


def _first_block(text: str) -> str | None:
    """Return the first block; one that is not closed goes to the end."""
    start = text.find(_OPENING)
    if start < 0:
        return None
    code = text[start + len(_OPENING) :]
    end = code.find("\n" + _CLOSING)
    if end < 0:
        end = code.find(_CLOSING)
    return code if end < 0 else code[:end]


def _from_call(call: ParsedCall) -> Action:
    problem = call.problem
    if problem is None and call.name != "appworld":
        problem = f"There is no tool {call.name!r}; the only one is appworld."
    code = call.arguments.get("code")
    if problem is None and not isinstance(code, str):
        problem = 'The tool appworld takes {"code": "..."}.'
    if problem is None and set(call.arguments) != {"code"}:
        problem = 'The tool appworld takes {"code": "..."} and nothing else.'
    return Action(code if isinstance(code, str) else "", problem, call.call_id, call.native)
