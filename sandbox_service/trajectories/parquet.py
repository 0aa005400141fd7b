"""Write rows as Parquet files, for dataset libraries: typed columns, messages as lists of structs.

Values without a fixed shape (parameters, tool schemas, bodies) are columns of JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
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


ROW_GROUP = 256
"""Rows held in memory at a time."""

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

_AS_TEXT = ("params", "request", "result", "timing", "tools")


def write_parquet(path: Path, rows: Rows, lines: Iterator[JsonObject]) -> int:
    """Write the rows, a group at a time, and return their number."""
    schema = EPISODE_SCHEMA if rows is Rows.EPISODES else EVENT_SCHEMA
    count = 0
    with ParquetWriter(path, schema, compression="zstd") as writer:
        while group := [_flat(line) for line in islice(lines, ROW_GROUP)]:
            writer.write_table(pa.Table.from_pylist(group, schema=schema))
            count += len(group)
    return count


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
