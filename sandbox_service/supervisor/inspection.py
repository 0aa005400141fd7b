"""What the supervisor tells of its instances: their states, and their recorded histories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sandbox_service.contract.inspection import Event, Instances, InstanceStatus, Trajectory

from .instances import unknown

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.runner.frames import Frame
    from sandbox_service.trajectories.records import EventRecord

    from .instances import Instance, Tombstone
    from .parts import Parts

__all__ = ["Inspection"]


class Inspection:
    """Answers questions; changes nothing."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def instances(self, frame: Frame) -> Frame:
        """The tenant's instances, or the one that the frame names."""
        tenant = frame.meta["tenant"]
        now = self._parts.clock.monotonic()
        table = self._parts.table
        ended = [self._ended(each, now) for each in table.tombstones(tenant)]
        live = [self._live(each, now) for each in table.live() if each.tenant == tenant]
        statuses = [
            each for each in (*ended, *live) if not frame.instance_id or each.instance_id == frame.instance_id
        ]
        if frame.instance_id and not statuses:
            raise unknown(frame.instance_id)
        return frame.reply(Instances(instances=tuple(statuses)).model_dump_json().encode())

    async def trajectory(self, frame: Frame) -> Frame:
        """The recorded history of one of the tenant's instances."""
        store = self._parts.store
        record = await store.instance(frame.instance_id)
        if record is None or record.tenant != frame.meta["tenant"]:
            raise unknown(frame.instance_id)
        events = await store.events(frame.instance_id)
        trajectory = Trajectory(
            instance_id=record.instance_id,
            environment=record.environment,
            task_id=record.task_id,
            tenant=record.tenant,
            seed=record.seed,
            parent=record.parent,
            events=tuple(_event(each) for each in events),
        )
        return frame.reply(trajectory.model_dump_json().encode())

    def _live(self, instance: Instance, now: float) -> InstanceStatus:
        return InstanceStatus(
            instance_id=instance.instance_id,
            environment=instance.spec.name,
            task_id=instance.task_id,
            state=instance.state.value,
            step_index=instance.step_index,
            idle_s=max(0.0, now - instance.lease.used_at),
            expires_in_s=self._parts.table.leases.expires_in_s(instance.lease, now),
            sandbox_id=None if instance.box is None else instance.box.sandbox.sandbox_id,
            supervisor=self._parts.name,
        )

    def _ended(self, tombstone: Tombstone, now: float) -> InstanceStatus:
        return InstanceStatus(
            instance_id=tombstone.instance_id,
            environment=tombstone.environment,
            task_id=tombstone.task_id,
            state=tombstone.state.value,
            step_index=tombstone.step_index,
            idle_s=max(0.0, now - tombstone.ended_at),
            supervisor=self._parts.name,
        )


def _event(record: EventRecord) -> Event:
    return Event(
        sequence=record.sequence,
        operation=record.kind.value,
        at=record.at,
        request=_object(record.request),
        result=_object(record.response),
        reward=record.reward,
        timing=record.timing_ms,
    )


def _object(body: bytes) -> dict[str, JsonValue] | None:
    parsed = json.loads(body) if body else None
    return parsed if isinstance(parsed, dict) else None
