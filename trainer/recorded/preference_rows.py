"""Rows of preferences: a prompt with a chosen and a rejected completion.

Read are TRL's standard and conversational formats, with the prompt in a column of its own or as the common
beginning of both conversations, and UltraFeedback's, where the prompt is a text and both conversations repeat
it. A text prompt becomes a message of the user, a text completion one of the assistant.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from trainer.tool_answers import numbered

from .bad_rows import RowError
from .conversation_rows import check_completion
from .episode_rows import write_rows
from .fields import ClosedRow, Id, Messages, Text, Tools, as_messages, untrained_turns, validated
from .types import LabelledCompletion, Preference

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject
    from sandbox_contract.messages import Message

    from .types import RowOrigin


class PreferenceRow(ClosedRow):
    """A row of a preference file."""

    chosen: str | Messages
    rejected: str | Messages
    prompt: str | Messages | None = None
    score_chosen: float | None = None
    score_rejected: float | None = None
    margin: float | None = None
    environment: Text = ""
    task_id: Id = ""
    tools: Tools = ()
    id: JsonValue = None
    # Columns of UltraFeedback that repeat others or name a row.
    prompt_id: JsonValue = None
    messages: JsonValue = None
    source: JsonValue = None


def read_preference_row(row: JsonObject, origin: RowOrigin) -> tuple[Preference, ...]:
    """Return the preference of a row. Raises RowError."""
    read = validated(PreferenceRow, row)
    prompt, chosen, rejected = _parts(read)
    check_completion("chosen", chosen)
    check_completion("rejected", rejected)
    if numbered([*prompt, *chosen]) == numbered([*prompt, *rejected]):
        raise RowError("chosen and rejected are the same")
    preference = Preference(
        prompt,
        chosen,
        rejected,
        origin,
        read.environment,
        read.task_id,
        read.tools,
        _margin(read),
        _skipped(row, "chosen", chosen),
        _skipped(row, "rejected", rejected),
    )
    return (preference,)


def preference_row(preference: Preference) -> JsonObject:
    """Return the row of a preference in TRL's conversational format."""
    row: JsonObject = {
        "environment": preference.environment,
        "task_id": preference.task_id,
        "margin": preference.margin,
        "prompt": _dumped(preference.prompt),
        "chosen": _dumped(preference.chosen, preference.chosen_skipped),
        "rejected": _dumped(preference.rejected, preference.rejected_skipped),
        "tools": [each.model_dump(mode="json") for each in preference.tools],
    }
    return {name: value for name, value in row.items() if value is not None and value != "" and value != []}


def write_preferences(path: Path, preferences: Iterable[Preference]) -> int:
    """Write a JSONL file of preferences and return their number."""
    return write_rows(path, (preference_row(preference) for preference in preferences))


def completion_row(labelled: LabelledCompletion) -> JsonObject:
    """Return the row of a labelled completion in TRL's format."""
    row: JsonObject = {
        "environment": labelled.environment,
        "task_id": labelled.task_id,
        "prompt": _dumped(labelled.prompt),
        "completion": _dumped(labelled.completion, labelled.skipped),
        "label": labelled.desirable,
        "tools": [each.model_dump(mode="json") for each in labelled.tools],
    }
    return {name: value for name, value in row.items() if value != "" and value != []}


def write_completions(path: Path, completions: Iterable[LabelledCompletion]) -> int:
    """Write a JSONL file of labelled completions and return their number."""
    return write_rows(path, (completion_row(each) for each in completions))


def split_at_difference(
    chosen: tuple[Message, ...], rejected: tuple[Message, ...]
) -> tuple[tuple[Message, ...], tuple[Message, ...], tuple[Message, ...]]:
    """Split two conversations into their common beginning and the two rests, at the assistant's first message
    that differs. Raises RowError if the conversations part at a message of somebody else, or do not part.
    """
    same = 0
    for one, other in zip(chosen, rejected, strict=False):
        if one != other:
            break
        same += 1
    rests = chosen[same:], rejected[same:]
    if not any(rests):
        raise RowError("chosen and rejected are the same")
    if not all(rests):
        raise RowError("one conversation is the beginning of the other, so that nothing is rejected")
    if any(rest[0].role != "assistant" for rest in rests):
        raise RowError(f"the prompts of chosen and rejected differ, at message {same}")
    return chosen[:same], *rests


def _parts(read: PreferenceRow) -> tuple[tuple[Message, ...], tuple[Message, ...], tuple[Message, ...]]:
    """Return prompt, chosen and rejected; each completion without the prompt that it may repeat."""
    if read.prompt is None:
        if isinstance(read.chosen, str) or isinstance(read.rejected, str):
            raise RowError("has no prompt; only conversations of messages may have it in common instead")
        prompt, chosen, rejected = split_at_difference(read.chosen, read.rejected)
        if not prompt:
            raise RowError("the prompts of chosen and rejected differ, at message 0")
        return prompt, chosen, rejected
    prompt = as_messages(read.prompt, "user")
    completions = []
    for name, given in (("chosen", read.chosen), ("rejected", read.rejected)):
        messages = as_messages(given, "assistant")
        if messages[0].role != "assistant":
            messages = _without_prompt(name, messages, prompt)
        completions.append(messages)
    return prompt, completions[0], completions[1]


def _without_prompt(
    name: str, conversation: tuple[Message, ...], prompt: tuple[Message, ...]
) -> tuple[Message, ...]:
    if conversation[: len(prompt)] != prompt:
        raise RowError(
            f"{name}: repeats another prompt than `prompt`; the prompts of a pair must be the same"
        )
    if len(conversation) == len(prompt):
        raise RowError(f"{name}: is empty")
    return conversation[len(prompt) :]


def _margin(read: PreferenceRow) -> float | None:
    if read.score_chosen is None or read.score_rejected is None:
        margin = read.margin
    else:
        margin = read.score_chosen - read.score_rejected
    if margin is not None and margin < 0:
        raise RowError(f"the rejected completion has the higher score, by {-margin:g}")
    return margin


def _skipped(row: JsonObject, column: str, completion: tuple[Message, ...]) -> frozenset[int]:
    """Return the indices of a completion's messages that a column marks as not to be trained on."""
    messages = row[column]
    # The column may repeat the prompt.
    before = len(messages) - len(completion) if isinstance(messages, list) else 0
    return frozenset(place - before for place in untrained_turns(row, column) if place >= before)


def _dumped(messages: tuple[Message, ...], skipped: frozenset[int] = frozenset()) -> list[JsonValue]:
    return [
        {**each.model_dump(mode="json", exclude_none=True), **({"weight": 0} if place in skipped else {})}
        for place, each in enumerate(messages)
    ]
