"""Convert recorded bodies to JSON values, or to JSON text that can be embedded unchanged."""

from __future__ import annotations

import base64
import json
import math
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


def value_of_text(text: str) -> JsonValue:
    """Return the value of a JSON text that a message holds, which can be written as JSON in UTF-8.

    Raises ValueError where the text is not JSON, is nested too deep or has numbers that are not finite.
    """
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return _without_surrogates(value) if "\\ud" in text.lower() else cast("JsonValue", value)


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
        return _without_surrogates(value)
    return cast("JsonValue", value)


def _without_surrogates(value: object) -> JsonValue:
    """Replace halves of surrogate pairs, from a program's broken output: legal in JSON, but not in UTF-8."""
    return cast("JsonValue", json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")))


def _finite(number: str) -> float:
    """Return a number. Raises ValueError for one that JSON cannot hold."""
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is not finite")
    return value
