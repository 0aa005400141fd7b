"""Convert function documents of the Gorilla project into OpenAI tools."""

from __future__ import annotations

import re
from typing import Any

Json = dict[str, Any]

_TYPES = {
    "any": "string",
    "array": "array",
    "arraylist": "array",
    "bigint": "integer",
    "bool": "boolean",
    "boolean": "boolean",
    "byte": "integer",
    "char": "string",
    "dict": "object",
    "double": "number",
    "float": "number",
    "hashmap": "object",
    "hashtable": "object",
    "integer": "integer",
    "list": "array",
    "long": "integer",
    "number": "number",
    "object": "object",
    "queue": "array",
    "short": "integer",
    "stack": "array",
    "string": "string",
    "tuple": "array",
}
_KEPT = ("description", "enum", "default", "format", "minimum", "maximum", "minItems", "maxItems")


def offered_name(name: str) -> str:
    """Return the function's name in the characters that OpenAI allows; dots become underscores."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64]


def tool_of(document: Json) -> Json:
    """Return a function document as an OpenAI tool."""
    function = {
        "name": offered_name(document["name"]),
        "description": document["description"],
        "parameters": _schema(document["parameters"]),
    }
    return {"type": "function", "function": function}


def _schema(node: Json) -> Json:
    """Convert one level of JSON schema; keys unknown to JSON schema, such as ``optional``, are left out."""
    given = str(node.get("type", "any"))
    schema: Json = {"type": _TYPES.get(given.lower(), "string")}
    schema |= {key: node[key] for key in _KEPT if key in node}
    if given == "float" and "description" in schema:
        schema["description"] += " This is a float type value."
    if isinstance(node.get("items"), dict):
        schema["items"] = _schema(node["items"])
    if isinstance(node.get("properties"), dict):
        schema["properties"] = {name: _schema(each) for name, each in node["properties"].items()}
        required = node.get("required")
        if isinstance(required, list):
            schema["required"] = [name for name in required if name in schema["properties"]]
    return schema
