"""OpenAI chat messages and tools, as far as an episode needs them.

Source: the OpenAI chat-completions schema. Fields that other servers add to a message
(``reasoning_content``, ``refusal``, ...) are accepted and ignored.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from .base import JsonObject

__all__ = ["FunctionCall", "FunctionSchema", "Message", "Tool", "ToolCall"]


class _Chat(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class FunctionCall(_Chat):
    """The function that a tool call names."""

    name: str
    """The tool's name."""
    arguments: str | JsonObject = "{}"
    """The arguments: a JSON object, or its text."""


class ToolCall(_Chat):
    """One call of a tool by the assistant."""

    id: str | None = None
    """The id that the tool's answer refers to."""
    type: Literal["function"] = "function"
    """Always ``function``."""
    function: FunctionCall
    """What is called."""


class Message(_Chat):
    """One chat message."""

    role: Literal["system", "user", "assistant", "tool"]
    """Who speaks."""
    content: str | None = None
    """The text; may be missing beside tool calls."""
    tool_calls: Annotated[tuple[ToolCall, ...] | None, Field(max_length=1024, fail_fast=True)] = None
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
    """What it does."""
    parameters: JsonObject = {}
    """JSON schema of the arguments object."""


class Tool(_Chat):
    """An OpenAI tool schema."""

    type: Literal["function"] = "function"
    """Always ``function``."""
    function: FunctionSchema
    """The function."""
