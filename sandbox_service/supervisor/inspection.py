"""What the supervisor tells of its instances: their states, and their recorded histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.contract.inspection import Instances, InstanceStatus
from sandbox_service.trajectories.records import public_id
from sandbox_service.trajectories.view import trajectory_of

from .instances import unknown

if TYPE_CHECKING:
    from sandbox_service.runner.frames import Frame

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
        record = await store.instance(frame.meta["tenant"], frame.instance_id)
        if record is None:
            raise unknown(frame.instance_id)
        events = await store.events(record.instance_id)
        trajectory = trajectory_of(record, events)
        return frame.reply(trajectory.model_dump_json().encode())

    def _live(self, instance: Instance, now: float) -> InstanceStatus:
        return InstanceStatus(
            instance_id=instance.public_id,
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
            instance_id=public_id(tombstone.instance_id),
            environment=tombstone.environment,
            task_id=tombstone.task_id,
            state=tombstone.state.value,
            step_index=tombstone.step_index,
            idle_s=max(0.0, now - tombstone.ended_at),
            supervisor=self._parts.name,
        )
