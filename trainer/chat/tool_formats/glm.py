"""``<tool_call>f<arg_key>x</arg_key><arg_value>1</arg_value></tool_call>``: GLM 4.5 and later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .base import listed, named_call
from .markup import expect, items, message_with_calls, spelt, typed, types_of, value_until

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_KEY, _KEY_END = "<arg_key>", "</arg_key>"
_VALUE, _VALUE_END = "<arg_value>", "</arg_value>"
_PARAGRAPH = """\
# Tools

You may call one or more functions. Their signatures are within <tools></tools>:
<tools>
{tools}
</tools>

For each call give the function's name and its arguments in this form:
<tool_call>function_name
<arg_key>argument_name</arg_key>
<arg_value>value</arg_value>
</tool_call>"""


class GlmFormat:
    """A name, then keys and values in tags, with or without line ends between them."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        def read(said: str, start: int, before: int) -> tuple[list[ToolCall], int] | None:
            found = _call(said, start, first + before, tools)
            return ([found[0]], found[1]) if found else None

        return message_with_calls(text, _OPEN, read)

    def render(self, message: Message) -> str:
        parts = [message.content] if message.content else []
        return "\n".join([*parts, *map(_written, message.tool_calls or ())])

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return _PARAGRAPH.format(tools=listed(tools))


def _call(text: str, start: int, number: int, tools: Sequence[Tool]) -> tuple[ToolCall, int] | None:
    name_end = text.find("<", start)
    name = text[start:name_end].strip() if name_end >= 0 else ""
    types = types_of(tools, name)
    arguments: dict[str, object] = {}
    position = name_end
    while (key_start := expect(text, position, _KEY)) is not None:
        key_end = text.find(_KEY_END, key_start)
        value_start = expect(text, key_end + len(_KEY_END), _VALUE) if key_end >= 0 else None
        found = (
            value_until(text, value_start, _VALUE_END, (_KEY, _CLOSE)) if value_start is not None else None
        )
        if found is None:
            return None
        key = text[key_start:key_end].strip()
        arguments[key] = typed(found[0], types.get(key, frozenset()))
        position = found[1]
    end = expect(text, position, _CLOSE) if name_end >= 0 else None
    call = named_call(name, arguments, number) if end is not None else None
    return (call, end) if call is not None and end is not None else None


def _written(call: ToolCall) -> str:
    pairs = (f"{_KEY}{key}{_KEY_END}\n{_VALUE}{spelt(value)}{_VALUE_END}\n" for key, value in items(call))
    return f"{_OPEN}{call.function.name}\n{''.join(pairs)}{_CLOSE}"
