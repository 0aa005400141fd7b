"""Plain text: the model's message goes to the environment unchanged, which parses it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sandbox_contract.messages import Message
from sandbox_contract.tool_prompt import tool_prompt

from .base import arguments_of
from .hermes import tagged

if TYPE_CHECKING:
    from sandbox_contract.messages import Tool, ToolCall


_BLOCKS = {"python": ("python", "code"), "execute_bash": ("bash", "command")}
"""Calls that environments also read from a fenced block: its language and the one argument."""


class TextFormat:
    """No calls, text alone. Programs are written as fenced blocks, other calls as ``<tool_call>`` JSON."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        return Message(role="assistant", content=text)

    def render(self, message: Message) -> str:
        parts = [message.content] if message.content else []
        return "\n".join([*parts, *map(_written, message.tool_calls or ())])

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return tool_prompt(tool.model_dump(mode="json") for tool in tools)


def _written(call: ToolCall) -> str:
    arguments = arguments_of(call)
    language, argument = _BLOCKS.get(call.function.name, ("", ""))
    if isinstance(arguments, dict) and list(arguments) == [argument]:
        program = arguments[argument]
        if isinstance(program, str) and "```" not in program:
            return f"```{language}\n{program.rstrip()}\n```"
    return tagged(call, "")
