"""Episodes of several records: one for each session, and for each set of tools, of one that was played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .types import RecordedEpisode, RowOrigin

PartKey: TypeAlias = "tuple[RowOrigin, str, int]"


def in_parts(records: Sequence[RecordedEpisode]) -> list[tuple[RecordedEpisode, ...]]:
    """Return the records of each episode together, in order: those of one follow each other in a file."""
    found: list[list[RecordedEpisode]] = []
    for record in records:
        if found and _continues(found[-1][-1], record):
            found[-1].append(record)
        else:
            found.append([record])
    return [tuple(parts) for parts in found]


def _continues(before: RecordedEpisode, record: RecordedEpisode) -> bool:
    named = [(each.origin.file, each.environment, each.task_id, each.id) for each in (before, record)]
    return bool(record.id) and record.part > before.part and named[0] == named[1]


def later_turns(records: Sequence[RecordedEpisode]) -> dict[PartKey, int]:
    """Return for each record how many turns that carry loss follow in the later records of its episode."""
    found: dict[PartKey, int] = {}
    for parts in in_parts(records):
        later = 0
        for record in reversed(parts):
            found[part_key(record)] = later
            later += len(record.turns) - len(record.skipped_turns)
    return found


def part_key(record: RecordedEpisode) -> PartKey:
    """Return what distinguishes a record from all others of the same data."""
    return (record.origin, record.id, record.part)


def whole(parts: Sequence[RecordedEpisode]) -> RecordedEpisode:
    """Return an episode as one conversation: its values, and all that was said in its sessions."""
    if len(parts) == 1:
        return parts[0]
    last = parts[-1]
    return replace(
        last,
        messages=(*last.earlier, *last.messages),
        earlier=(),
        part=parts[0].part,
        repeated_turns=0,
        step_rewards=_rewards(parts),
        # Both name messages and turns of one part.
        step_labels={},
        skipped=frozenset(),
        format_errors=sum(each.format_errors for each in parts),
    )


def _rewards(parts: Sequence[RecordedEpisode]) -> tuple[float, ...]:
    """Return the rewards of all steps; none unless every part has some.

    A part repeats the turns of its session that came before a change of the tools. Rewards that were made of
    labels leave these out.
    """
    if not all(each.step_rewards for each in parts):
        return ()
    if any(len(each.step_rewards) != len(each.turns) for each in parts):
        return tuple(reward for each in parts for reward in each.step_rewards)
    found: dict[int, float] = {}
    for each in parts:
        before = sum(message.role == "assistant" for message in each.earlier)
        found |= {before + number: reward for number, reward in enumerate(each.step_rewards)}
    return tuple(found[number] for number in sorted(found))
