"""The JSON types that a JSON Schema allows, as far as it says.

Generators such as pydantic describe an enumeration by a reference to a definition.
"""

from __future__ import annotations

from collections.abc import Mapping

_CHOICES = ("anyOf", "oneOf", "allOf")
_ESCAPES = (("~1", "/"), ("~0", "~"))


def argument_types(schema: Mapping[str, object]) -> dict[str, frozenset[str]]:
    """Return the types of the arguments that the schema of a function describes, by name."""
    described = _referred(schema.get("$ref"), schema) or schema
    properties = described.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: _types(each, schema) for name, each in properties.items()}


def types_of_value(value: object) -> frozenset[str]:
    """Return the types that JSON Schema has for a value."""
    match value:
        case None:
            return frozenset({"null"})
        case bool():
            return frozenset({"boolean"})
        case int():
            return frozenset({"integer", "number"})
        case float():
            return frozenset({"number"})
        case str():
            return frozenset({"string"})
        case list():
            return frozenset({"array"})
        case _:
            return frozenset({"object"})


def _types(schema: object, root: Mapping[str, object]) -> frozenset[str]:
    """Return the types of all parts of a schema, also of those that hold together (``allOf``).

    Older pydantic writes ``allOf`` around a single reference. ``root`` has what is referred to.
    """
    found: set[str] = set()
    waiting, seen = [schema], set[int]()
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict) or id(part) in seen:  # references may form circles
            continue
        seen.add(id(part))
        own = _own_types(part)
        found |= own
        if not own:
            waiting.append(_referred(part.get("$ref"), root))
            waiting += [each for name in _CHOICES for each in _list(part.get(name))]
    return frozenset(found)


def _own_types(schema: dict[str, object]) -> set[str]:
    """Return the types that a schema names itself, or those of the only values that it allows."""
    kind = schema.get("type")
    named = {each for each in ([kind] if isinstance(kind, str) else _list(kind)) if isinstance(each, str)}
    if named:
        return named
    values = [schema["const"]] if "const" in schema else _list(schema.get("enum"))
    return {kind for value in values for kind in types_of_value(value)}


def _referred(reference: object, root: Mapping[str, object]) -> dict[str, object] | None:
    """Return the part of a schema that a pointer such as ``#/$defs/Unit`` names; None without one."""
    if not isinstance(reference, str):
        return None
    first, *names = reference.split("/")
    found: object = root if first == "#" else None
    for name in names:
        for escape, plain in _ESCAPES:
            name = name.replace(escape, plain)
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
