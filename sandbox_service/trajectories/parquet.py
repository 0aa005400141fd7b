"""Write rows as Parquet files, for dataset libraries: typed columns, messages as lists of structs.

Values without a fixed shape (parameters, tool schemas, bodies) are columns of JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow.parquet import ParquetWriter
from pydantic import ValidationError

from sandbox_contract.messages import Message

from .rows import Rows

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.base import JsonObject


_GROUP_ROWS = 256
"""Most rows held in memory at a time."""
_GROUP_CHARACTERS = 16 * 1024 * 1024
"""Characters of texts at which a group of rows is written: a few rows may be all that memory has room for."""

_FUNCTION = pa.struct([("name", pa.string()), ("arguments", pa.string())])
_TOOL_CALL = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", _FUNCTION)])
_MESSAGE = pa.struct(
    [
        ("role", pa.string()),
        ("content", pa.string()),
        ("images", pa.list_(pa.string())),
        ("reasoning_content", pa.string()),
        ("reasoning", pa.string()),
        ("tool_calls", pa.list_(_TOOL_CALL)),
        ("tool_call_id", pa.string()),
        ("name", pa.string()),
    ]
)

EPISODE_SCHEMA = pa.schema(
    [
        ("instance_id", pa.string()),
        ("environment", pa.string()),
        ("task_id", pa.string()),
        ("tenant", pa.string()),
        ("supervisor", pa.string()),
        ("seed", pa.int64()),
        ("params", pa.string()),
        ("parent", pa.string()),
        ("created_at", pa.float64()),
        ("ended_at", pa.float64()),
        ("ended_by", pa.string()),
        ("steps", pa.int64()),
        ("terminated", pa.bool_()),
        ("truncated", pa.bool_()),
        ("success", pa.bool_()),
        ("score", pa.float64()),
        ("reward", pa.float64()),
        ("step_rewards", pa.list_(pa.float64())),
        ("step_ms", pa.list_(pa.float64())),
        ("messages", pa.list_(_MESSAGE)),
        ("tools", pa.string()),
        ("frames", pa.string()),
    ]
)

EVENT_SCHEMA = pa.schema(
    [
        ("instance_id", pa.string()),
        ("environment", pa.string()),
        ("task_id", pa.string()),
        ("tenant", pa.string()),
        ("sequence", pa.int64()),
        ("operation", pa.string()),
        ("at", pa.float64()),
        ("status", pa.int32()),
        ("reward", pa.float64()),
        ("timing", pa.string()),
        ("request", pa.string()),
        ("result", pa.string()),
    ]
)

_AS_TEXT = ("frames", "params", "request", "result", "timing", "tools")


def write_parquet(path: Path, rows: Rows, lines: Iterator[JsonObject]) -> int:
    """Write the rows, a group at a time, and return their number."""
    schema = EPISODE_SCHEMA if rows is Rows.EPISODES else EVENT_SCHEMA
    count = 0
    group: list[JsonObject] = []
    characters = 0
    with ParquetWriter(path, schema, compression="zstd") as writer:

        def write() -> None:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            group.clear()

        for row in map(_flat, lines):
            group.append(row)
            count += 1
            characters += _characters(row)
            if len(group) == _GROUP_ROWS or characters >= _GROUP_CHARACTERS:
                write()
                characters = 0
        if group:
            write()
    return count


def _characters(value: JsonValue) -> int:
    """Return the characters of all texts in a value, without the names of its fields."""
    if isinstance(value, dict):
        return sum(map(_characters, value.values()))
    if isinstance(value, list):
        return sum(map(_characters, value))
    return len(value) if isinstance(value, str) else 0


def _flat(line: JsonObject) -> JsonObject:
    flat = dict(line)
    for name in _AS_TEXT:
        if flat.get(name) is not None:
            flat[name] = json.dumps(flat[name], ensure_ascii=False)
    messages = flat.get("messages")
    if isinstance(messages, list):
        flat["messages"] = [_message(message) for message in messages]
    return flat


def _message(message: JsonValue) -> JsonValue:
    """Return the message with its fixed fields only; arguments are JSON text, as in OpenAI's API.

    One that the contract does not admit is its JSON text, under its own role, as an export in ATIF has it.
    """
    try:
        parsed: JsonObject = Message.model_validate(message).model_dump(mode="json")
    except ValidationError:
        role = message.get("role") if isinstance(message, dict) else None
        content = json.dumps(message, ensure_ascii=False)
        return {"role": role if isinstance(role, str) else "user", "content": content}
    calls = parsed["tool_calls"]
    for call in calls if isinstance(calls, list) else []:
        function = call["function"] if isinstance(call, dict) else None
        if isinstance(function, dict) and not isinstance(function["arguments"], str):
            function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    return parsed
