"""Convert records to rows of the tables, with the values in the order of the columns."""

from __future__ import annotations

import json
from typing import TypeAlias

from .records import EventRecord, InstanceRecord

Record: TypeAlias = InstanceRecord | EventRecord
Value: TypeAlias = str | bytes | int | float | None
Row: TypeAlias = dict[str, Value]

_write_json = json.JSONEncoder().encode


def instance_row(record: InstanceRecord) -> Row:
    """Return the row of an instance, without the columns of its end."""
    return {
        "instance_id": record.instance_id,
        "environment": record.environment,
        "task_id": record.task_id,
        "tenant": record.tenant,
        "supervisor": record.supervisor,
        "created_at": record.created_at,
        "seed": record.seed,
        "params_json": record.params_json,
        "parent": record.parent,
        "fork_sequence": record.fork_sequence,
    }


def event_row(record: EventRecord) -> Row:
    """Return the row of an event."""
    return {
        "instance_id": record.instance_id,
        "sequence": record.sequence,
        "kind": record.kind.value,
        "at": record.at,
        "request": record.request,
        "response": record.response,
        "status": record.status,
        "idempotency_key": record.idempotency_key,
        "reward": record.reward,
        "timing_ms": _write_json(record.timing_ms) if record.timing_ms else "{}",
    }
