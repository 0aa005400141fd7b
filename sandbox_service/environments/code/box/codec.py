"""Python values as JSON, for the connection between the grader and a candidate: data only, never code.

JSON's own scalars and lists stand for themselves; everything else is ``{"$": tag, "v": ...}``. Subclasses are
sent as the plain value they extend, so that no method written by a candidate reaches the grader. What has no
data form is left to the caller: ``express`` writes it, with tags of its own, which ``resolve`` reads.
Standard library only.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import numbers
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 100
"""Deepest nesting of a value."""
_SAFE_INTEGER = 2**53
_CONTAINERS = (
    (list, "list"),
    (tuple, "tuple"),
    (set, "set"),
    (frozenset, "frozenset"),
)
_TYPES = {
    kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
}
"""Types that may be passed as values, as in ``only(items, int)``."""
_BUILDERS: dict[str, Callable[[list[Any]], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class CodecError(Exception):
    """The value has no data form, or the data does not stand for a value."""


def encode(value: object, express: Callable[[object, int], Any], depth: int = MAX_DEPTH) -> Any:  # noqa: ANN401
    """Return the JSON form of ``value``, as the plain type it extends. Raises CodecError at MAX_DEPTH."""
    if depth <= 0:
        raise CodecError(f"the value is nested deeper than {MAX_DEPTH}")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, numbers.Number):
        return _encode_number(value, express, depth)
    for kind, tag in _CONTAINERS:
        if isinstance(value, kind):
            items = [encode(item, express, depth - 1) for item in value]
            return items if tag == "list" else {"$": tag, "v": items}
    if isinstance(value, dict):
        pairs = [
            [encode(key, express, depth - 1), encode(item, express, depth - 1)]
            for key, item in dict.items(value)
        ]
        return {"$": "dict", "v": pairs}
    return _encode_rare(value, express, depth)


def _encode_number(value: numbers.Number, express: Callable[[object, int], Any], depth: int) -> Any:  # noqa: ANN401
    if isinstance(value, numbers.Integral):
        whole = int(value)
        return whole if abs(whole) < _SAFE_INTEGER else {"$": "int", "v": hex(whole)}
    if isinstance(value, float):
        real = float.__float__(value)
        return real if math.isfinite(real) else {"$": "float", "v": repr(real)}
    if isinstance(value, complex):
        return {"$": "complex", "v": [repr(value.real), repr(value.imag)]}
    if isinstance(value, decimal.Decimal):
        return {"$": "decimal", "v": decimal.Decimal.__str__(value)}
    if isinstance(value, fractions.Fraction):
        return {"$": "fraction", "v": [hex(value.numerator), hex(value.denominator)]}
    return express(value, depth)


def _encode_rare(value: object, express: Callable[[object, int], Any], depth: int) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, bytes | bytearray):
        return {"$": type(value).__name__ if type(value) is bytearray else "bytes", "v": bytes(value).hex()}
    for name, kind in _TYPES.items():
        if value is kind:
            return {"$": "type", "v": name}
    if isinstance(value, range):
        return {"$": "range", "v": [hex(value.start), hex(value.stop), hex(value.step)]}
    if isinstance(value, datetime.datetime | datetime.date) and getattr(value, "tzinfo", None) is None:
        tag = "datetime" if isinstance(value, datetime.datetime) else "date"
        return {"$": tag, "v": value.isoformat()}
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return encode(value.tolist(), express, depth - 1)
    return express(value, depth)


def decode(data: Any, resolve: Callable[[object, Any, int], object], depth: int = MAX_DEPTH) -> Any:  # noqa: ANN401
    """Return the value of ``data``; ``resolve`` takes tag, content and depth of what is no plain value.

    Raises CodecError for anything that neither ``encode`` nor ``express`` writes.
    """
    if depth <= 0:
        raise CodecError(f"the data is nested deeper than {MAX_DEPTH}")
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return [decode(item, resolve, depth - 1) for item in data]
    if not isinstance(data, dict) or set(data) != {"$", "v"}:
        raise CodecError("an object without a tag")
    tag, content = data["$"], data["v"]
    try:
        if tag in _BUILDERS and isinstance(content, list):
            return _BUILDERS[tag]([decode(item, resolve, depth - 1) for item in content])
        if tag == "dict":
            return {
                decode(key, resolve, depth - 1): decode(item, resolve, depth - 1) for key, item in content
            }
        if isinstance(tag, str) and tag in _SCALARS:
            return _SCALARS[tag](content)
        return resolve(tag, content, depth)
    except CodecError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"malformed {tag!r}: {type(error).__name__}") from None


def _integer(content: str) -> int:
    return int(content, 16)


def _float(content: str) -> float:
    if content not in {"nan", "inf", "-inf"}:
        raise CodecError("a finite float with a tag")
    return float(content)


_SCALARS: dict[str, Callable[[Any], object]] = {
    "int": _integer,
    "float": _float,
    "complex": lambda parts: complex(float(parts[0]), float(parts[1])),
    "decimal": decimal.Decimal,
    "fraction": lambda parts: fractions.Fraction(_integer(parts[0]), _integer(parts[1])),
    "type": _TYPES.__getitem__,
    "bytes": bytes.fromhex,
    "bytearray": bytearray.fromhex,
    "range": lambda parts: range(*map(_integer, parts)),
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
}
