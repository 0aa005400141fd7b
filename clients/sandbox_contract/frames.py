"""The parts of an episode that an agent sees: new sessions, and tools that change on the way.

An environment says both in the ``info`` of a step: ``new_session``, after which earlier messages are no
longer shown (BFCL's memory tasks), and ``tools``, which replace the earlier ones (BFCL's missing functions).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from .base import JsonObject, Result
from .messages import Tool

__all__ = ["ConversationFrame", "begins_session", "frame_after", "opening_frame", "tools_of"]

_TOOLS = TypeAdapter(tuple[Tool, ...])


class ConversationFrame(Result):
    """The messages and tools that an agent sees from one message of the episode on, until the next frame."""

    message: Annotated[int, Field(ge=0)]
    """Index of the first message of which this holds."""
    first: Annotated[int, Field(ge=0)]
    """Index of the first message that is seen: that of the session."""
    tools: tuple[Tool, ...] = ()
    """The tools that are offered."""


def opening_frame(tools: tuple[Tool, ...]) -> ConversationFrame:
    """Return the frame in which an episode begins."""
    return ConversationFrame(message=0, first=0, tools=tools)


def begins_session(info: JsonObject) -> bool:
    """Return whether a step's observation begins another session, whose conversation has no history."""
    return info.get("new_session") is True


def tools_of(info: JsonObject) -> tuple[Tool, ...] | None:
    """Return the tools that a step's info gives from now on; None if it changes nothing.

    ``tools`` that are none are the environment's own and change nothing.
    """
    if "tools" not in info:
        return None
    try:
        return _TOOLS.validate_python(info["tools"])
    except ValidationError:
        return None


def frame_after(before: ConversationFrame, info: JsonObject, message: int) -> ConversationFrame | None:
    """Return the frame that a step opens; None if it changes nothing.

    Args:
        before: the frame until then.
        info: the step's info.
        message: index of the first message of the step's observation.
    """
    changed = tools_of(info)
    tools = before.tools if changed is None else changed
    if begins_session(info):
        return ConversationFrame(message=message, first=message, tools=tools)
    return None if tools == before.tools else before.model_copy(update={"message": message, "tools": tools})
