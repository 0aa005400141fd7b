"""Parts of rows that several formats share: closed models, texts that stand for messages, and checks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError

from sandbox_contract.frames import ConversationFrame
from sandbox_contract.messages import Message, Tool
from sandbox_settings import first_mistake

from .bad_rows import RowError, UnplayedError
from .rows import json_value

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject


class ClosedRow(BaseModel):
    """Base of the models of rows."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


_TRAINED = ("weight", "loss", "train")
"""Marks of a message, 0 or false where it is not to be trained on: OpenAI's and Mistral's, and others'."""

RowModel = TypeVar("RowModel", bound=ClosedRow)


def _parsed_text(value: object) -> object:
    """Return JSON text, as columns without a fixed shape are in Parquet, as its value."""
    if not isinstance(value, str):
        return value
    try:
        return json_value(value) if value.strip() else None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is a text that is not valid JSON: {error}") from None


def _or_nothing(value: object) -> object:
    return () if value is None else value


def _or_empty(value: object) -> object:
    return {} if value is None else value


def _id_text(value: object) -> object:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _without_developer(message: object) -> object:
    """Return a message as it is, or with the role that chat templates have for the developer's."""
    if isinstance(message, dict) and message.get("role") == "developer":
        return {**message, "role": "system"}
    return message


def _as_tool(value: object) -> object:
    """Return a bare function, as LLaMA-Factory lists them, as a tool; all else is for the schema to judge."""
    bare = isinstance(value, dict) and "name" in value and not value.keys() & {"function", "input_schema"}
    return {"type": "function", "function": value} if bare else value


Tools: TypeAlias = Annotated[
    tuple[Annotated[Tool, BeforeValidator(_as_tool)], ...],
    BeforeValidator(_or_nothing),
    BeforeValidator(_parsed_text),
]
"""Tool schemas or their functions alone, as a list or as the JSON text of one; none where null."""
Frames: TypeAlias = Annotated[
    tuple[ConversationFrame, ...], BeforeValidator(_or_nothing), BeforeValidator(_parsed_text)
]
"""Sessions and sets of tools of an episode, as a list or as the JSON text of one; none where null."""
Params: TypeAlias = Annotated[dict[str, JsonValue], BeforeValidator(_or_empty), BeforeValidator(_parsed_text)]
"""Parameters of an instance, as an object or as its JSON text."""
StepLabels: TypeAlias = Annotated[
    dict[str, tuple[float | None, ...]], BeforeValidator(_or_empty), BeforeValidator(_parsed_text)
]
"""Labels of steps by dimension, as an object or as its JSON text."""
Rewards: TypeAlias = Annotated[tuple[float, ...], BeforeValidator(_or_nothing)]
Text: TypeAlias = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
"""A text; empty where null."""
Id: TypeAlias = Annotated[str, BeforeValidator(_id_text)]
"""A name, also where files number their rows; empty where null."""
Messages: TypeAlias = Annotated[
    tuple[Annotated[Message, BeforeValidator(_without_developer)], ...], Field(min_length=1)
]


def validated(model: type[RowModel], row: JsonObject) -> RowModel:
    """Return the row as a model. Raises RowError with the first field that does not fit, and the reason."""
    try:
        return model.model_validate(row)
    except ValidationError as error:
        raise RowError(first_mistake(error)) from None


def is_empty(message: Message) -> bool:
    """Return whether a message says nothing and calls nothing."""
    return not (message.content or "").strip() and not message.tool_calls


def check_conversation(messages: Sequence[Message]) -> None:
    """Raise RowError unless the assistant says something, in answer to something.

    Raises UnplayedError where it has no message at all.
    """
    roles = [message.role for message in messages]
    if "assistant" not in roles:
        raise UnplayedError(
            "has no message of the assistant, so there is nothing to learn from; "
            "skip_unplayed=true leaves such episodes out"
        )
    if all(role in ("system", "assistant") for role in roles[: roles.index("assistant") + 1]):
        raise RowError(
            "begins with the assistant's message: the task that it answers is missing "
            "(demonstrations without their task are played: warm_start.demonstrations)"
        )
    if all(is_empty(message) for message in messages if message.role == "assistant"):
        raise RowError("all messages of the assistant are empty")


def as_messages(value: str | Sequence[Message], role: str) -> tuple[Message, ...]:
    """Return a text as one message of ``role``; messages are returned as they are."""
    if isinstance(value, str):
        return (Message.model_validate({"role": role, "content": value}),)
    return tuple(value)


def untrained_turns(row: JsonObject, column: str) -> frozenset[int]:
    """Return the indices of the assistant's messages in a column that are marked as not to be trained on.

    Raises RowError for a mark that is neither 0 nor 1.
    """
    found: set[int] = set()
    messages = row[column]
    for place, message in enumerate(messages if isinstance(messages, list) else ()):
        if not isinstance(message, dict):
            continue
        for name in _TRAINED:
            mark = message.get(name)
            if mark not in (None, 0, 1):
                raise RowError(f"{column}.{place}.{name}: must be 0 or 1, not {json.dumps(mark)[:40]}")
            if mark == 0 and message.get("role") == "assistant":
                found.add(place)
    return frozenset(found)


def columns_of(model: type[ClosedRow]) -> frozenset[str]:
    """Return the names of all columns that a row may have, aliases included."""
    names: set[str] = set()
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        names |= {str(choice) for choice in alias.choices} if isinstance(alias, AliasChoices) else {name}
    return frozenset(names)
