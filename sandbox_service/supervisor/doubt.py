"""Guards instances that may lack steps after a takeover.

Each takeover is an event of the instance, which names the new owner and says whether the record is complete.
An instance is in doubt if steps that were answered may be missing from its record. A client that counts its
steps shows by ``step_index`` that it knows the state; all others get an error instead of a wrong state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.trajectories.records import EventKind
from sandbox_service.wire.frames import Op

if TYPE_CHECKING:
    from sandbox_service.trajectories.records import EventRecord, InstanceRecord
    from sandbox_service.wire.frames import Frame

    from .instances import Instance
    from .journal import Journal


_IN_DOUBT = 409
"""Status of a takeover after which the instance may lack steps."""


def record_takeover(journal: Journal, instance: Instance, supervisor: str) -> None:
    """Record who has the instance from now on, and whether it may lack steps that were answered."""
    response = json.dumps({"supervisor": supervisor, "complete": not instance.in_doubt}).encode()
    status = _IN_DOUBT if instance.in_doubt else 200
    journal.write_eventually(journal.event(instance, EventKind.RECOVER, response=response, status=status))


def last_writer(record: InstanceRecord, events: Sequence[EventRecord]) -> str:
    """Return the supervisor that wrote the instance's latest events; empty after a handover."""
    for event in reversed(events):
        if event.kind is EventKind.RECOVER and event.instance_id == record.instance_id:
            return str(json.loads(event.response)["supervisor"])
    return record.supervisor


def was_left_in_doubt(record: InstanceRecord, events: Sequence[EventRecord]) -> bool:
    """Return whether an earlier takeover left the instance in doubt and no step has settled that since."""
    for event in reversed(events):
        if event.instance_id != record.instance_id or event.kind is EventKind.STEP:
            return False
        if event.kind is EventKind.RECOVER and event.status == _IN_DOUBT:
            return True
    return False


def resolve_doubt(instance: Instance, frame: Frame) -> None:
    """Admit an operation on an in-doubt instance if its ``step_index`` shows that the caller knows the state.

    Raises ServiceError(INSTANCE_RECOVERED) otherwise.
    """
    asked = frame.meta.get("step_index") if frame.op is Op.STEP else None
    index = instance.step_index
    if asked is None:
        detail = (
            f"the instance was recovered at step {index} and may lack steps that were answered; continue "
            "with a step that has a step_index, or release it and create another"
        )
        raise ServiceError(ErrorCode.INSTANCE_RECOVERED, detail)
    if asked > index:
        detail = f"the instance was recovered at step {index}; answered steps up to {asked - 1} are lost"
        raise ServiceError(ErrorCode.INSTANCE_RECOVERED, detail)
    if asked == index:
        instance.in_doubt = False
