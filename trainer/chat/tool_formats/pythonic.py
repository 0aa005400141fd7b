"""``[get_weather(city="Kyoto"), now()]``: a list of Python calls; Llama 4, Llama 3.2, ToolACE and others."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from trainer.chat.thoughts import split_thoughts

from .base import arguments_of, listed, message_of, named_call

if TYPE_CHECKING:
    from sandbox_contract.messages import Message, Tool, ToolCall


_TAGS = re.compile(r"^<\|python_(?:start|tag)\|>|<\|python_end\|>$")
_CONSTANTS = {"true": True, "false": False, "null": None}
"""JSON's constants, which models mix into Python."""
_PARAGRAPH = """\
# Tools

You may call one or more of these functions:
{tools}

To call functions, answer with nothing but a list of Python calls with named arguments:
[function_name(argument="value"), another_function(number=1)]"""


class PythonicFormat:
    """A list of calls with literal arguments and nothing else; the text is parsed, never executed."""

    def parse(self, text: str, first: int = 0, tools: Sequence[Tool] = ()) -> Message:
        thoughts, said = split_thoughts(text)
        calls = python_calls(_TAGS.sub("", said.strip()).strip(), first)
        return message_of(text, thoughts, calls)

    def render(self, message: Message) -> str:
        calls = written_calls(message.tool_calls or ()) if message.tool_calls else ""
        return f"{message.content or ''}{calls}"

    def describe_tools(self, tools: Iterable[Tool]) -> str:
        return _PARAGRAPH.format(tools=listed(tools))


def written_calls(calls: Iterable[ToolCall]) -> str:
    """Return a list of Python calls."""
    return f"[{', '.join(map(_written, calls))}]"


def python_calls(text: str, first: int) -> list[ToolCall]:
    """Return the calls of a text that is a list of Python calls; none of another text."""
    if not text.startswith("["):
        return []
    try:
        body = ast.parse(text, mode="eval").body
        nodes = body.elts if isinstance(body, ast.List) else []
        calls = [_call(node, first + index) for index, node in enumerate(nodes)]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return []
    known = [call for call in calls if call is not None]
    return known if len(known) == len(calls) else []


def _call(node: ast.expr, number: int) -> ToolCall | None:
    """Convert a call. Raises ValueError or TypeError for arguments that are not JSON."""
    if not isinstance(node, ast.Call) or node.args or any(word.arg is None for word in node.keywords):
        return None
    arguments: dict[str, object] = {str(word.arg): _value(word.value) for word in node.keywords}
    return named_call(_name(node.func), json.dumps(arguments, ensure_ascii=False, allow_nan=False), number)


def _name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _name(node.value)
        return f"{owner}.{node.attr}" if owner else None
    return None


def _value(node: ast.expr) -> object:
    """Return a literal, in which JSON's own names may stand for Python's."""
    match node:
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return [_value(part) for part in parts]
        case ast.Dict(keys=keys, values=values):
            if not all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in keys):
                raise ValueError("a JSON object has text for keys")
            names = [key.value for key in keys if isinstance(key, ast.Constant)]
            return dict(zip(names, map(_value, values), strict=True))
        case _:
            return ast.literal_eval(node)


def _written(call: ToolCall) -> str:
    arguments = arguments_of(call)
    given = arguments.items() if isinstance(arguments, dict) else ()
    return f"{call.function.name}({', '.join(f'{name}={value!r}' for name, value in given)})"
