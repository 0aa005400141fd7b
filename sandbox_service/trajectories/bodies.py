"""Convert recorded bodies to JSON values, or to JSON text that can be embedded unchanged."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.base import JsonObject


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def value_of(body: bytes) -> JsonValue:
    """Return the body's value; None for an empty one, and an object with base64 for one that is not JSON."""
    if not body:
        return None
    try:
        return _parse(body)
    except ValueError:
        return {"base64": base64.b64encode(body).decode()}


def object_of(body: bytes) -> JsonObject | None:
    """Return the body's object; None for an empty body and for one that is not a JSON object."""
    try:
        value = _parse(body) if body else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def json_object_of(body: bytes) -> bytes:
    """Return the body's object as JSON; ``null`` for an empty body and for one that is not a JSON object.

    The recorded JSON is not parsed again: that would take many times as long as reading it.
    """
    if not (body.startswith(b"{") and body.endswith(b"}")):
        return b"null"
    # Searching for one byte first takes a tenth of the time, and most bodies have no escapes.
    if b"\\" not in body or _SURROGATE.search(body) is None:
        return body
    return json.dumps(object_of(body), ensure_ascii=False).encode()


def _parse(body: bytes) -> JsonValue:
    value = json.loads(body)
    if b"\\ud" in body or b"\\uD" in body:
        # Half a surrogate pair, from a program's broken output, is legal in JSON but not in UTF-8.
        value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    return cast("JsonValue", value)
