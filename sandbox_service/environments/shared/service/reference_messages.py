"""Assistant messages with native tool calls, of which references are made."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue


def one_call(number: int, name: str, arguments: Mapping[str, object]) -> dict[str, JsonValue]:
    """Return the message of a reference that calls one tool; ``number`` is its place among the messages."""
    return _calling([_call(f"call_{number}", name, arguments)])


def several_calls(number: int, calls: Iterable[tuple[str, Mapping[str, object]]]) -> dict[str, JsonValue]:
    """Return the message of a reference that calls tools, each by its name with arguments."""
    return _calling(
        [_call(f"call_{number}_{index}", name, arguments) for index, (name, arguments) in enumerate(calls)]
    )


def _call(call_id: str, name: str, arguments: Mapping[str, object]) -> JsonValue:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def _calling(calls: list[JsonValue]) -> dict[str, JsonValue]:
    return {"role": "assistant", "content": None, "tool_calls": calls}
