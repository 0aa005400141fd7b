"""Rows of a dataset: one per episode, with its messages, or one per event.

Rows are made one episode at a time, so memory is bounded by the longest episode, not by the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from . import reader
from .bodies import value_of
from .reader import InstanceFilter
from .records import EventKind, public_id
from .view import agent_turns, conversation_of, frames_of, outcome_of, tools_of

if TYPE_CHECKING:
    from pydantic import JsonValue
    from sqlalchemy.engine import Connection

    from sandbox_contract.base import JsonObject

    from .reader import StoredInstance
    from .records import EventRecord
    from .redaction import Redaction
    from .view import EpisodeOutcome


Progress: TypeAlias = "Callable[[int, int], None]"
"""Called with the number of episodes read and their total."""
MakeEpisode: TypeAlias = (
    "Callable[[StoredInstance, Sequence[EventRecord], EpisodeOutcome], JsonObject | None]"
)
"""Makes an episode's row; None leaves the episode out."""


class Rows(StrEnum):
    """The unit of a row."""

    EPISODES = "episodes"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class ExportFilter:
    """Conditions on episodes; those that are None do not apply."""

    instances: InstanceFilter = field(default_factory=InstanceFilter)
    success: bool | None = None
    """Graded, and solved or not solved."""
    min_reward: float | None = None
    """Least score, or least sum of step rewards where the episode was never graded."""

    def admits(self, outcome: EpisodeOutcome) -> bool:
        """Return whether an episode with this outcome is wanted."""
        if self.success is not None and outcome.success is not self.success:
            return False
        return self.min_reward is None or outcome.reward >= self.min_reward


def rows_of(
    connection: Connection,
    rows: Rows,
    wanted: ExportFilter,
    progress: Progress | None = None,
    *,
    make_episode: MakeEpisode | None = None,
    redaction: Redaction | None = None,
) -> Iterator[JsonObject]:
    """Yield the wanted rows, in order of the instances' creation, without those that are pruned meanwhile."""
    total = reader.count_instances(connection, wanted.instances) if progress else 0
    for done, stored in enumerate(reader.list_instances(connection, wanted.instances), start=1):
        events = reader.events_of(connection, stored.record.instance_id)
        outcome = outcome_of(events)
        if wanted.admits(outcome) and reader.still_there(connection, [stored.record.instance_id]):
            if redaction is not None:
                stored, events = redaction.of_episode(stored, events)
            if rows is Rows.EPISODES:
                row = (make_episode or episode_row)(stored, events, outcome)
                yield from () if row is None else (row,)
            else:
                # A fork's conversation includes its parent's; of events only its own: none comes twice.
                own = (event for event in events if event.instance_id == stored.record.instance_id)
                yield from (_event(stored, event) for event in own)
        if progress:
            progress(done, max(done, total))


def jsonl_line(row: JsonObject) -> str:
    """Return a row as a line of a JSONL file."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n"


def episode_row(
    stored: StoredInstance, events: Sequence[EventRecord], outcome: EpisodeOutcome | None = None
) -> JsonObject:
    """Return the row of an episode with these events; ``outcome`` is theirs, where it is known already.

    ``frames`` is there where the episode has several sessions, or tools that change.
    """
    messages: list[JsonValue] = [*conversation_of(events)]
    columns = episode_columns(stored, events, outcome or outcome_of(events))
    row = {**columns, "messages": messages, "tools": tools_of(events)}
    frames = frames_of(events)
    if len(frames) > 1:
        row["frames"] = [frame.model_dump(mode="json") for frame in frames]
    return row


def episode_columns(
    stored: StoredInstance, events: Sequence[EventRecord], outcome: EpisodeOutcome
) -> JsonObject:
    """Return the columns of an episode's row, without its messages and tools.

    ``steps`` and ``step_ms`` are those of the instance, ``step_rewards`` those of the agent: they differ
    where a counterpart takes steps, too.
    """
    record = stored.record
    steps = [event for event in events if event.kind is EventKind.STEP and event.status < 400]
    return {
        "instance_id": public_id(record.instance_id),
        "environment": record.environment,
        "task_id": record.task_id,
        "tenant": record.tenant,
        "supervisor": record.supervisor,
        "seed": record.seed,
        "params": value_of(record.params_json),
        "parent": None if record.parent is None else public_id(record.parent),
        "created_at": record.created_at,
        "ended_at": stored.ended_at,
        "ended_by": stored.ended_by.value if stored.ended_by else None,
        "steps": len(steps),
        "terminated": outcome.terminated,
        "truncated": outcome.truncated,
        "success": outcome.success,
        "score": outcome.score,
        "reward": outcome.reward,
        "step_rewards": [turn.reward for turn in agent_turns(events) if turn.event.kind is EventKind.STEP],
        "step_ms": [event.timing_ms.get("run_ms") for event in steps],
    }


def _event(stored: StoredInstance, event: EventRecord) -> JsonObject:
    timing: JsonObject = {**event.timing_ms}
    return {
        "instance_id": public_id(event.instance_id),
        "environment": stored.record.environment,
        "task_id": stored.record.task_id,
        "tenant": stored.record.tenant,
        "sequence": event.sequence,
        "operation": event.kind.value,
        "at": event.at,
        "status": event.status,
        "reward": event.reward,
        "timing": timing,
        "request": value_of(event.request),
        "result": value_of(event.response),
    }
