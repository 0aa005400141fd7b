"""Derive the state of an instance from its record and events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sandbox_contract.inspection import InstanceStatus
from sandbox_service.trajectories.records import EventKind, public_id

from .instances import InstanceState

if TYPE_CHECKING:
    from sandbox_service.trajectories.records import EventRecord, InstanceRecord


ENDED_AS = {
    EventKind.RELEASE: InstanceState.RELEASED,
    EventKind.EXPIRE: InstanceState.EXPIRED,
    EventKind.LOST: InstanceState.LOST,
}
"""The state in which an event leaves its instance for ever."""


def end_of(record: InstanceRecord, events: Sequence[EventRecord]) -> InstanceState | None:
    """Return the state in which an instance has ended; None if it has not. A parent's end is no fork's."""
    for event in reversed(events):
        if event.kind.ends and event.instance_id == record.instance_id:
            return ENDED_AS[event.kind]
    return None


def latest_at(record: InstanceRecord, events: Sequence[EventRecord]) -> float:
    """Return the unix time of the latest record, by the clock of the node that wrote it."""
    return max([record.created_at, *(event.at for event in events)])


def steps_of(events: Sequence[EventRecord]) -> Sequence[EventRecord]:
    """Return the steps that were taken."""
    return [event for event in events if event.kind is EventKind.STEP and event.status < 400]


def is_finished(steps: Sequence[EventRecord]) -> bool:
    """Return whether the episode is over after its steps."""
    result = json.loads(steps[-1].response) if steps else {}
    return bool(result.get("terminated") or result.get("truncated"))


def recorded_status(record: InstanceRecord, events: Sequence[EventRecord], now: float) -> InstanceStatus:
    """Return the state of an instance at unix time ``now``: it has ended, or waits for its next call."""
    steps, ended = steps_of(events), end_of(record, events)
    live = InstanceState.FINISHED if is_finished(steps) else InstanceState.ACTIVE
    return InstanceStatus(
        instance_id=public_id(record.instance_id),
        environment=record.environment,
        task_id=record.task_id,
        state=(ended or live).value,
        step_index=len(steps),
        idle_s=max(0.0, now - latest_at(record, events)),
        age_s=max(0.0, now - record.created_at) if ended is None else None,
        supervisor=record.owner,
    )
