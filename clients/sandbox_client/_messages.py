"""Assistant messages as callers have them: texts, dictionaries and the objects of SDKs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pydantic import BaseModel, JsonValue

from sandbox_contract.messages import Message

__all__ = ["Action", "message_fields", "message_of"]

Action: TypeAlias = "BaseModel | Mapping[str, JsonValue] | str"
"""An assistant message: a Message or an SDK's pydantic object, its dictionary, or its content alone."""

_FIELDS = frozenset({"role", "content", "tool_calls"})
"""An assistant message has one of them."""


def message_of(action: Action) -> object:
    """Return an action as a message, or as the fields of one."""
    if isinstance(action, str):
        return Message(role="assistant", content=action)
    if isinstance(action, BaseModel) and not isinstance(action, Message):
        return message_fields(action)
    return action


def message_fields(action: Action) -> dict[str, JsonValue]:
    """Return the fields of an assistant message, and those beside them that an SDK's object has.

    Raises TypeError for an object that is no message, as a whole answer is.
    """
    if isinstance(action, str):
        fields: dict[str, JsonValue] = {"content": action}
    elif isinstance(action, BaseModel):
        fields = action.model_dump(mode="json", exclude_none=True)
    else:
        fields = dict(action)
    if not fields.keys() & _FIELDS:
        # Whoever reads messages ignores fields that it does not know, and would take it for an empty one.
        raise TypeError(
            f"{type(action).__name__} is no assistant message: it has neither role, content nor tool_calls; "
            "of a chat completion send choices[0].message, of a Response its output_text, and its function "
            "calls as tool_calls, or by an agent's call_tool"
        )
    return {**fields, "role": "assistant"}
