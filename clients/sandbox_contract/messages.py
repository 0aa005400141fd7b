"""OpenAI chat messages and tools, as far as an episode needs them.

Source: the OpenAI chat-completions schema. A content that is a list of text parts becomes its text, arguments
of ``null`` become none, and the reasoning that servers return beside the content is kept. Other fields that
servers add to a message (``refusal``, ``annotations``, ...) are accepted and ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from .base import JsonObject

__all__ = ["MOST_TOOL_CALLS", "FunctionCall", "FunctionSchema", "Message", "Tool", "ToolCall"]


class _Chat(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


MOST_TOOL_CALLS = 1024
"""Tool calls of one message."""
_MOST_PARTS = 1024
_NULL: JsonObject = {"type": "null"}
_TEXT: JsonObject = {"type": "string"}
_PART: JsonObject = {
    "type": "object",
    "properties": {"type": {"const": "text"}, "text": _TEXT},
    "required": ["type", "text"],
}
_PARTS: JsonObject = {"type": "array", "items": _PART, "maxItems": _MOST_PARTS}
_OBJECT: JsonObject = {"type": "object", "additionalProperties": True}


def _joined_parts(content: object) -> object:
    """Return the text of a list of parts; all else is for the schema to judge."""
    if not isinstance(content, list | tuple):
        return content
    if len(content) > _MOST_PARTS:
        raise ValueError(f"a content has at most {_MOST_PARTS} parts")
    return "\n".join(map(_text_of, content))


def _text_of(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise ValueError('a part of the content must be {"type": "text", "text": ...}; others are not taken')  # noqa: TRY004
    return text


def _no_arguments(arguments: object) -> object:
    return "{}" if arguments is None else arguments


class FunctionCall(_Chat):
    """The function that a tool call names."""

    name: str
    """The tool's name."""
    arguments: Annotated[
        str | JsonObject, BeforeValidator(_no_arguments), WithJsonSchema({"anyOf": [_TEXT, _OBJECT, _NULL]})
    ] = "{}"
    """The arguments: a JSON object, or its text; none when null or missing."""


class ToolCall(_Chat):
    """One call of a tool by the assistant."""

    id: str | None = None
    """The id that the tool's answer refers to."""
    type: Literal["function"] = "function"
    """Always ``function``."""
    function: FunctionCall
    """The function that is called, with its arguments."""


class Message(_Chat):
    """One chat message."""

    role: Literal["system", "user", "assistant", "tool"]
    """The author of the message."""
    content: Annotated[
        str | None,
        BeforeValidator(_joined_parts),
        WithJsonSchema({"anyOf": [_TEXT, _PARTS, _NULL]}),
    ] = None
    """The text, or a list of text parts, which are joined by line ends; may be missing beside tool calls."""
    reasoning_content: str | None = None
    """The assistant's reasoning, where the server returns it apart from the content. It is recorded, and no
    environment reads it."""
    reasoning: str | None = None
    """The same under the name that other servers give it."""
    tool_calls: Annotated[tuple[ToolCall, ...] | None, Field(max_length=MOST_TOOL_CALLS, fail_fast=True)] = (
        None
    )
    """The assistant's tool calls."""
    tool_call_id: str | None = None
    """The call that a tool message answers."""
    name: str | None = None
    """The tool's name in a tool message."""


class FunctionSchema(_Chat):
    """A tool's function: its name, what it does and the JSON schema of its arguments."""

    name: str
    """The name to call it by."""
    description: str = ""
    """Description of the function for the model."""
    parameters: JsonObject = {}
    """JSON schema of the arguments object."""


class Tool(_Chat):
    """An OpenAI tool schema."""

    type: Literal["function"] = "function"
    """Always ``function``."""
    function: FunctionSchema
    """The function."""
