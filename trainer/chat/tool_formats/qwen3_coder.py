"""``<tool_call><function=f><parameter=x>1</parameter></function></tool_call>``.

Qwen3-Coder, Qwen 3.5 and later, Nemotron 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trainer.chat.thoughts import split_thoughts

from .base import listed, message_of, named_call
from .markup import expect, items, spelt, typed, types_of, value_until

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END = "<function=", "</function>"
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"
_PARAGRAPH = """\
# Tools

You have access to the following functions:

<tools>
{tools}
</tools>

To call a function, answer in this form, with words before it at most:
<tool_call>
<function=function_name>
<parameter=parameter_name>
value
</parameter>
</function>
</tool_call>"""


class Qwen3CoderFormat:
    """Tags around the name and each argument. The outer tags may be missing: Qwen3-Coder omits them."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        thoughts, said = split_thoughts(text)
        calls: list[ToolCall] = []
        kept: list[str] = []
        end = 0
        while (start := said.find(_FUNCTION, end)) >= 0:
            kept.append(_unopened(said[end:start]))
            read = _call(said, start + len(_FUNCTION), first + len(calls), tools)
            if read is None:
                return message_of(text)
            calls.append(read[0])
            end = expect(said, read[1], _CLOSE) or read[1]
        content = "".join(kept) + said[end:]
        return message_of(text, thoughts + content, () if _OPEN in content else calls)

    def render(self, message: Message) -> str:
        parts = [message.content] if message.content else []
        return "\n".join([*parts, *map(_written, message.tool_calls or ())])

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return _PARAGRAPH.format(tools=listed(tools))


def _unopened(text: str) -> str:
    """Return the text before a function, without the tag that opens the call."""
    bare = text.rstrip()
    return bare.removesuffix(_OPEN) if bare.endswith(_OPEN) else text


def _call(text: str, start: int, number: int, tools: Sequence[Tool]) -> tuple[ToolCall, int] | None:
    """Parse the call whose name begins at ``start``, and return it with the end of its function."""
    close = text.find(">", start)
    name = text[start:close] if close >= 0 else ""
    types = types_of(tools, name)
    arguments: dict[str, object] = {}
    position = close + 1
    while (opened := expect(text, position, _PARAMETER)) is not None:
        key_end = text.find(">", opened)
        found = value_until(text, key_end + 1, _PARAMETER_END, (_PARAMETER, _FUNCTION_END))
        if key_end < 0 or found is None:
            return None
        key = text[opened:key_end]
        arguments[key] = typed(found[0].removeprefix("\n").removesuffix("\n"), types.get(key, frozenset()))
        position = found[1]
    end = expect(text, position, _FUNCTION_END)
    call = named_call(name, arguments, number) if close >= 0 else None
    return (call, end) if call is not None and end is not None else None


def _written(call: ToolCall) -> str:
    parameters = "".join(
        f"{_PARAMETER}{key}>\n{spelt(value)}\n{_PARAMETER_END}\n" for key, value in items(call)
    )
    return f"{_OPEN}\n{_FUNCTION}{call.function.name}>\n{parameters}{_FUNCTION_END}\n{_CLOSE}"
