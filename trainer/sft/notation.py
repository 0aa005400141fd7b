"""The one call in an assistant's message, read and written in the notation that it is in.

Two notations are known: native tool calls, and text, where a program is a fenced ``python`` block and any
other call is JSON within ``<tool_call></tool_call>``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_contract.messages import FunctionCall, Message, ToolCall

if TYPE_CHECKING:
    from pydantic import JsonValue


PYTHON, SUBMIT = "python", "submit"
"""Tools of the code environment."""
_BLOCK = re.compile(r"(?P<words>.*?)(?P<fence>`{3,})python\n(?P<code>.*?)\n?(?P=fence)\s*", re.DOTALL)
_TAGGED = re.compile(r"(?P<words>.*?)<tool_call>(?P<call>.*)</tool_call>\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool and what it is given."""

    tool: str
    arguments: dict[str, JsonValue] = field(default_factory=dict)

    @property
    def code(self) -> str | None:
        """The program, in a call that runs one."""
        code = self.arguments.get("code")
        return code if self.tool == PYTHON and isinstance(code, str) else None


def program(code: str) -> Call:
    """The call that runs a program."""
    return Call(PYTHON, {"code": code})


def call_in(message: Message) -> Call | None:
    """The message's call; None when it has none, several, or one that cannot be read."""
    if message.tool_calls:
        return _native(message.tool_calls[0]) if len(message.tool_calls) == 1 else None
    text = message.content or ""
    block, tagged = _BLOCK.fullmatch(text), _TAGGED.fullmatch(text)
    if text.count("<tool_call>") + text.count("```python") != 1:
        return None
    if block is not None:
        return program(block["code"])
    return _tagged(tagged["call"]) if tagged is not None else None


def with_call(message: Message, call: Call) -> Message:
    """The message with another call in place of the one that ``call_in`` reads: same words, same notation."""
    if message.tool_calls:
        function = FunctionCall(name=call.tool, arguments=json.dumps(call.arguments, ensure_ascii=False))
        return message.model_copy(
            update={"tool_calls": (message.tool_calls[0].model_copy(update={"function": function}),)}
        )
    text = message.content or ""
    found = _BLOCK.fullmatch(text) or _TAGGED.fullmatch(text)
    return Message(role="assistant", content=(found["words"] if found else "") + _written(call))


def say(call: Call, *, words: str = "", native: bool = False) -> Message:
    """A message with one call, after words if there are any."""
    if not native:
        return Message(role="assistant", content=(f"{words}\n" if words else "") + _written(call))
    function = FunctionCall(name=call.tool, arguments=json.dumps(call.arguments, ensure_ascii=False))
    return Message(
        role="assistant", content=words or None, tool_calls=(ToolCall(id="call_0", function=function),)
    )


def _native(call: ToolCall) -> Call | None:
    arguments = call.function.arguments
    try:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return None
    return Call(call.function.name, given) if isinstance(given, dict) else None


def _tagged(text: str) -> Call | None:
    try:
        given = json.loads(text)
    except ValueError:
        return None
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return None
    arguments = given.get("arguments", {})
    return Call(given["name"], arguments) if isinstance(arguments, dict) else None


def _written(call: Call) -> str:
    code = call.code
    if code is None or len(call.arguments) != 1:
        told = json.dumps({"name": call.tool, "arguments": call.arguments}, ensure_ascii=False)
        return f"<tool_call>{told}</tool_call>"
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{code}\n{fence}"
