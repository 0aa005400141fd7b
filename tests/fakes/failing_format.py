"""The tool format of a plugin that has a fault: it raises for some of what a model writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sandbox_contract.messages import Message, Tool
from trainer.chat.tool_formats import TOOL_FORMATS

__all__ = ["FAILING", "UNREAD", "FailingFormat"]

FAILING = "tests.fakes.failing_format:FailingFormat"
UNREAD = "Let me see."
"""The text that it raises for."""


class FailingFormat:
    """Hermes with the fault."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        if UNREAD in text:
            raise KeyError("arguments")
        return TOOL_FORMATS["hermes"].parse(text, first, tools)

    def render(self, message: Message) -> str:
        return TOOL_FORMATS["hermes"].render(message)

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        if any(tool.function.name == "unread" for tool in tools):
            raise KeyError("name")
        return TOOL_FORMATS["hermes"].describe_tools(tools)
