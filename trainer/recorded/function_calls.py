"""Tool calls of ShareGPT files: ``function_call`` entries, whose texts are the JSON of calls.

LLaMA-Factory (https://llamafactory.readthedocs.io/en/latest/getting_started/data_preparation.html) writes a
call as ``{"name": ..., "arguments": {...}}``, or several as a list of these, and what they return as the
``observation`` entries after it. Such files number no calls; calls and their answers have numbers here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, JsonValue

from sandbox_contract.messages import MOST_TOOL_CALLS, Message

from .bad_rows import RowError
from .fields import ClosedRow, validated
from .rows import json_value

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject


class CallValue(ClosedRow):
    """One call, as such files write it."""

    name: str = Field(min_length=1)
    arguments: str | dict[str, JsonValue] | None = None


class NumberedCalls:
    """Gives the calls of one conversation ids, and each to the observation that answers it."""

    def __init__(self) -> None:
        self._count = 0
        self._unanswered: list[str] = []

    def called(self, text: str) -> Message:
        """Return the assistant's message that makes the calls of a text. Raises RowError."""
        calls: list[JsonObject] = []
        for call in _calls_in(text):
            function: JsonObject = {"name": call.name, "arguments": call.arguments}
            # Some chat templates take only ids of nine characters.
            calls.append({"id": f"{self._count:09d}", "type": "function", "function": function})
            self._count += 1
        self._unanswered = [str(call["id"]) for call in calls]
        return Message.model_validate({"role": "assistant", "tool_calls": calls})

    def observed(self, text: str) -> Message:
        """Return the message of an observation, in answer to the first call that has no answer yet."""
        answered = self._unanswered.pop(0) if self._unanswered else None
        return Message(role="tool", content=text, tool_call_id=answered)

    def said(self) -> None:
        """Note that somebody speaks: observations after it answer no call before it."""
        self._unanswered.clear()


def _calls_in(text: str) -> tuple[CallValue, ...]:
    try:
        value = json_value(text)
    except (ValueError, RecursionError) as error:
        raise RowError(f"is not JSON of a call: {error}") from None
    found = value if isinstance(value, list) else [value]
    calls = [each for each in found if isinstance(each, dict)]
    if not 0 < len(found) <= MOST_TOOL_CALLS or len(calls) < len(found):
        raise RowError(f"must be an object with name and arguments, or a list of 1 to {MOST_TOOL_CALLS}")
    return tuple(validated(CallValue, each) for each in calls)
