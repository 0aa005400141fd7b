"""Takes over the instances of a supervisor that ended, and guards those that may lack steps.

An instance is doubtful when steps that were answered may be missing from its record. A client that counts its
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


_DOUBTFUL = 409


def last_writer(record: InstanceRecord, events: Sequence[EventRecord]) -> str:
    """Return the supervisor that wrote the instance's latest events."""
    for event in reversed(events):
        if event.kind is EventKind.RECOVER and event.instance_id == record.instance_id:
            return str(json.loads(event.response)["supervisor"])
    return record.supervisor


def in_doubt(record: InstanceRecord, events: Sequence[EventRecord]) -> bool:
    """Return whether an earlier takeover left a doubt that no step has settled since."""
    for event in reversed(events):
        if event.instance_id != record.instance_id or event.kind is EventKind.STEP:
            return False
        if event.kind is EventKind.RECOVER and event.status == _DOUBTFUL:
            return True
    return False


def record_takeover(journal: Journal, instance: Instance, supervisor: str) -> None:
    """Record who has the instance from now on, and whether it may lack steps that were answered."""
    response = json.dumps({"supervisor": supervisor, "complete": not instance.doubtful}).encode()
    status = _DOUBTFUL if instance.doubtful else 200
    journal.keep(journal.event(instance, EventKind.RECOVER, response=response, status=status))


def require_proof(instance: Instance, frame: Frame) -> None:
    """Let an operation on a doubtful instance pass when its caller shows that it knows the state.

    Raises ServiceError(INSTANCE_RECOVERED) when that is not shown.
    """
    asked = frame.meta.get("step_index") if frame.op is Op.STEP else None
    index = instance.step_index
    if asked is None:
        detail = (
            f"the instance was recovered at step {index} and may lack steps that were answered; go on by a "
            "step with step_index, or release it and create another"
        )
        raise ServiceError(ErrorCode.INSTANCE_RECOVERED, detail)
    if asked > index:
        detail = f"the instance was recovered at step {index}; answered steps up to {asked - 1} are lost"
        raise ServiceError(ErrorCode.INSTANCE_RECOVERED, detail)
    if asked == index:
        instance.doubtful = False
