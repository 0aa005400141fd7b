"""``<minimax:tool_call><invoke name="f"><parameter name="x">1</parameter></invoke></minimax:tool_call>``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .base import listed, named_call
from .markup import expect, items, message_with_calls, spelt, typed, types_of, value_until

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_OPEN, _CLOSE = "<minimax:tool_call>", "</minimax:tool_call>"
_INVOKE, _INVOKE_END = '<invoke name="', "</invoke>"
_PARAMETER, _PARAMETER_END = '<parameter name="', "</parameter>"
_NAMED = '">'
_PARAGRAPH = """\
# Tools

You may call one or more tools. Their schemas:
<tools>
{tools}
</tools>

To call tools, answer in this form:
<minimax:tool_call>
<invoke name="tool_name">
<parameter name="parameter_name">value</parameter>
</invoke>
</minimax:tool_call>"""


class MinimaxFormat:
    """Invocations within one outer tag; MiniMax M2."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        def read(said: str, start: int, before: int) -> tuple[list[ToolCall], int] | None:
            calls: list[ToolCall] = []
            position = start
            while (named := expect(said, position, _INVOKE)) is not None:
                found = _call(said, named, first + before + len(calls), tools)
                if found is None:
                    return None
                calls.append(found[0])
                position = found[1]
            closed = expect(said, position, _CLOSE)
            return (calls, closed) if closed is not None else None

        return message_with_calls(text, _OPEN, read)

    def render(self, message: Message) -> str:
        parts = [message.content] if message.content else []
        if message.tool_calls:
            parts.append("\n".join([_OPEN, *map(_written, message.tool_calls), _CLOSE]))
        return "\n".join(parts)

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return _PARAGRAPH.format(tools=listed(tools))


def _call(text: str, start: int, number: int, tools: Sequence[Tool]) -> tuple[ToolCall, int] | None:
    """Parse the invocation whose name begins at ``start``, and return it with its end."""
    name_end = text.find(_NAMED, start)
    if name_end < 0:
        return None
    name = text[start:name_end]
    types = types_of(tools, name)
    arguments: dict[str, object] = {}
    position = name_end + len(_NAMED)
    while (key_start := expect(text, position, _PARAMETER)) is not None:
        key_end = text.find(_NAMED, key_start)
        value_start = key_end + len(_NAMED)
        found = (
            value_until(text, value_start, _PARAMETER_END, (_PARAMETER, _INVOKE_END))
            if key_end >= 0
            else None
        )
        if found is None:
            return None
        key = text[key_start:key_end]
        arguments[key] = typed(found[0], types.get(key, frozenset()))
        position = found[1]
    end = expect(text, position, _INVOKE_END)
    call = named_call(name, arguments, number)
    return (call, end) if call is not None and end is not None else None


def _written(call: ToolCall) -> str:
    parameters = "".join(
        f"{_PARAMETER}{key}{_NAMED}{spelt(value)}{_PARAMETER_END}\n" for key, value in items(call)
    )
    return f"{_INVOKE}{call.function.name}{_NAMED}\n{parameters}{_INVOKE_END}"
