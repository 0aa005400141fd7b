"""Turns messages into JSON objects and back, and refuses what is no message of the connection.

A field holds JSON values only. On decoding, the field names must be those of the message's kind, and each
value must have a type that the field's annotation names. Types inside of lists and objects are not checked.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from sandbox_service.wire.json_types import JsonObject

JsonValue = JsonObject | list[Any] | str | int | float | bool | None


class MessageError(ValueError):
    """The kind of a message is unknown here, or its fields are not those of its kind."""


@dataclass(frozen=True, slots=True)
class RunnerMessage:
    """Base of all messages."""

    kind: ClassVar[str]
    """Names the message on its connection."""


M = TypeVar("M", bound=RunnerMessage)


def encode(message: RunnerMessage) -> JsonObject:
    """Return a message as a JSON object."""
    value: JsonObject = {"kind": message.kind}
    for field in fields(message):
        value[field.name] = getattr(message, field.name)
    return value


class Codec(Generic[M]):
    """Decodes the messages that may arrive at one end of a connection."""

    def __init__(self, *classes: type[M]) -> None:
        self.kinds = {each.kind: (each, _field_types(each)) for each in classes}
        """Message classes by kind, each with the types of its fields."""
        if len(self.kinds) != len(classes):
            raise ValueError("two messages of a connection have the same kind")

    def decode(self, value: JsonObject) -> M:
        """Return the message that a JSON object stands for. Raises MessageError when it is none."""
        kind = value.get("kind")
        known = self.kinds.get(kind) if isinstance(kind, str) else None
        if known is None:
            raise MessageError(f"no message of kind {str(kind)[:50]!r} is expected here")
        message, allowed = known
        if value.keys() - {"kind"} != allowed.keys():
            raise MessageError(f"a message of kind {kind!r} has the fields {sorted(allowed)}")
        for name, allowed_types in allowed.items():
            # The exact type: true is an int to isinstance.
            if type(value[name]) not in allowed_types:
                raise MessageError(f"the field {name!r} of a message of kind {kind!r} has the wrong type")
        return message(**{name: value[name] for name in allowed})


def _field_types(message: type[RunnerMessage]) -> dict[str, frozenset[type]]:
    hints = get_type_hints(message)
    return {field.name: frozenset(_plain_types(hints[field.name])) for field in fields(message)}


def _plain_types(hint: object) -> list[type]:
    """Return the classes of an annotation: two for ``int | None``, ``list`` for ``list[str]``."""
    if isinstance(hint, types.UnionType) or get_origin(hint) is Union:
        return [each for argument in get_args(hint) for each in _plain_types(argument)]
    plain = get_origin(hint) or hint
    assert isinstance(plain, type), f"{hint} stands for no class"
    return [plain]
