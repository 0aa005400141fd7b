"""Arguments of API calls as data: what JSON has stays what it is, all else keeps its type's name and its
text.

AppWorld turns arguments into JSON, or into the text of an address. A value of another type makes it fail
with the type's name, or is written as its text; both come out the same on the far side of a pipe.
"""

from __future__ import annotations

from typing import Any

_LONGEST_TEXT = 10_000


def encode(value: object) -> object:
    """Return a value as JSON, without mistaking one for another."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (list, tuple)):
        return {"l": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"d": [[encode(key), encode(item)] for key, item in value.items()]}
    return {"o": [type(value).__name__, str(value)[:_LONGEST_TEXT]]}


def decode(data: object) -> Any:  # noqa: ANN401
    """Return the value that ``encode`` wrote. Raises ValueError for anything else."""
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if isinstance(data, dict) and len(data) == 1:
        ((kind, content),) = data.items()
        if kind == "l" and isinstance(content, list):
            return [decode(item) for item in content]
        if kind == "d" and isinstance(content, list):
            return {_key(key): decode(item) for key, item in map(_pair, content)}
        if kind == "o" and isinstance(content, list):
            return _stranger(*map(str, _pair(content)))
    raise ValueError("no encoded value")


def _pair(data: object) -> tuple[object, object]:
    if not isinstance(data, list) or len(data) != 2:
        raise ValueError("no pair")
    return data[0], data[1]


def _key(data: object) -> Any:  # noqa: ANN401
    key = decode(data)
    return tuple(key) if isinstance(key, list) else key


def _stranger(name: str, text: str) -> object:
    """Return an object of which nothing is known but its type's name and its text."""
    return type(name or "object", (), {"__str__": lambda _: text})()
