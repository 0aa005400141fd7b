"""Write reference solutions as demonstrations to fine-tune a model on.

Calls are native, or written into the content in a notation that the environment parses: code in fenced
blocks, other calls as ``<tool_call>`` JSON. The latter is for models without tool calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from sandbox_contract.messages import Message

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.messages import ToolCall
    from sandbox_service.environments.base import Catalog


_MESSAGES = TypeAdapter(tuple[Message, ...])
_FENCES: Mapping[str, tuple[str, str]] = {"python": ("python", "code"), "execute_bash": ("bash", "command")}
"""Tools whose only argument may be a fenced block: the language of the block, and the argument."""


@dataclass(frozen=True, slots=True)
class ReferenceDemonstration:
    """The solution of one task."""

    environment: str
    task_id: str
    messages: tuple[Message, ...]
    """The assistant's messages in order; none if the task has no reference."""

    def line(self) -> str:
        """Return the demonstration as a line of JSON."""
        messages = [message.model_dump(mode="json", exclude_none=True) for message in self.messages]
        content = {"environment": self.environment, "task_id": self.task_id, "messages": messages}
        return json.dumps(content, ensure_ascii=False)


def demonstrations(
    catalog: Catalog, task_ids: Sequence[str], *, text: bool
) -> Iterator[ReferenceDemonstration]:
    """Yield the references of tasks; ``text`` writes their calls into the content."""
    fences = fences_of(catalog)
    for task_id in task_ids:
        messages = _MESSAGES.validate_python(catalog.reference(task_id))
        if text:
            messages = tuple(as_text(message, fences) for message in messages)
        yield ReferenceDemonstration(catalog.spec.name, task_id, messages)


def fences_of(catalog: Catalog) -> Mapping[str, tuple[str, str]]:
    """Return the environment's tools that a fenced block calls, too."""
    offered = {tool.function.name for tool in catalog.describe().tools}
    return {tool: fence for tool, fence in _FENCES.items() if tool in offered}


def as_text(message: Message, fences: Mapping[str, tuple[str, str]]) -> Message:
    """Return the message with its calls in the content."""
    if not message.tool_calls:
        return message
    parts = [message.content] if message.content else []
    parts += [_written(call, fences) for call in message.tool_calls]
    return Message(role="assistant", content="\n".join(parts))


def _written(call: ToolCall, fences: Mapping[str, tuple[str, str]]) -> str:
    name, given = call.function.name, call.function.arguments
    arguments: dict[str, JsonValue] = json.loads(given) if isinstance(given, str) else given
    if name in fences:
        language, argument = fences[name]
        code = arguments.get(argument)
        if set(arguments) == {argument} and isinstance(code, str):
            return _fenced(language, code)
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}</tool_call>"


def _fenced(language: str, code: str) -> str:
    """Return a code block whose fence is longer than any fence in the code."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code}{'' if code.endswith(chr(10)) else chr(10)}{fence}"
