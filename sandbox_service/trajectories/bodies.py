"""Recorded bodies as JSON values that can be written out again, or as the JSON that they are."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.base import JsonObject

__all__ = ["json_object_of", "object_of", "value_of"]

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def value_of(body: bytes) -> JsonValue:
    """The body's value; None for an empty one, and base64 in an object for one that is no JSON."""
    if not body:
        return None
    try:
        return _parse(body)
    except ValueError:
        return {"base64": base64.b64encode(body).decode()}


def object_of(body: bytes) -> JsonObject | None:
    """The body's object; None for an empty body and for one that is no JSON object."""
    try:
        value = _parse(body) if body else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def json_object_of(body: bytes) -> bytes:
    """The body's object as JSON; ``null`` for an empty body and for one that is no JSON object.

    What was recorded is JSON and is not parsed again: that would take many times as long as reading it.
    """
    if not (body.startswith(b"{") and body.endswith(b"}")):
        return b"null"
    # Looking for one byte first takes a tenth of the time, and most bodies have no escapes.
    if b"\\" not in body or _SURROGATE.search(body) is None:
        return body
    return json.dumps(object_of(body), ensure_ascii=False).encode()


def _parse(body: bytes) -> JsonValue:
    value = json.loads(body)
    if b"\\ud" in body or b"\\uD" in body:
        # Half a surrogate pair, from a program's broken output, is legal in JSON and in no UTF-8 file.
        value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return cast("JsonValue", value)
