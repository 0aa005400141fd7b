"""Writes the events of instances to the trajectory store, and keeps those that the store refuses.

An operation whose event is refused fails with ``storage_full`` and its event is kept; until the store has
taken it, no other operation begins. An instance ends even so: a full disk must not keep a box busy.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from typing import TYPE_CHECKING

from sandbox_contract.problems import ERROR_SPECS
from sandbox_service.errors import ServiceError
from sandbox_service.pool.usage import DAY_S, DailyBytes
from sandbox_service.telemetry import get_logger
from sandbox_service.trajectories.records import EventKind, EventRecord, InstanceRecord

from .idempotency import RECORDED_AS

if TYPE_CHECKING:
    from sandbox_service.trajectories.base import TrajectoryStore
    from sandbox_service.wire.frames import Frame

    from .clock import Clock
    from .instances import Instance


logger = get_logger(__name__)


class Journal:
    """Writes to the trajectory store."""

    def __init__(self, supervisor: str, store: TrajectoryStore, clock: Clock) -> None:
        self._supervisor = supervisor
        self._store = store
        self._clock = clock
        self._backlog: deque[EventRecord] = deque()
        self.recorded = DailyBytes()
        """Bytes that were recorded for each tenant within a day."""

    def event(
        self,
        instance: Instance,
        kind: EventKind,
        *,
        request: bytes = b"",
        response: bytes = b"",
        status: int = 200,
        key: str | None = None,
        reward: float | None = None,
        timing_ms: dict[str, float] | None = None,
    ) -> EventRecord:
        """Make the next event of an instance; it is not written yet."""
        sequence = instance.sequence
        instance.sequence += 1
        self.recorded.add(instance.tenant, len(request) + len(response), self._clock.monotonic())
        return EventRecord(
            instance.instance_id,
            sequence,
            kind,
            self._clock.time(),
            request,
            response,
            status,
            key,
            reward,
            timing_ms or {},
        )

    def failure(self, instance: Instance, frame: Frame, error: ServiceError) -> EventRecord:
        """Return the event of an operation that ended with an error."""
        return self.event(
            instance,
            RECORDED_AS[frame.op],
            request=frame.body,
            response=error.problem(instance=instance.public_id).model_dump_json().encode(),
            status=ERROR_SPECS[error.code].status,
            key=frame.meta.get("key"),
        )

    async def load_usage(self) -> None:
        """Count what earlier runs of the supervisor recorded within the last day."""
        now = self._clock.time()
        since_monotonic = self._clock.monotonic() - now
        for each in await self._store.recorded_bytes(self._supervisor, now - DAY_S, now):
            self.recorded.recall(each.tenant, each.size, since_monotonic + each.at)

    def is_writable(self) -> bool:
        """Return whether the store takes records."""
        try:
            self.write_backlog()
        except ServiceError:
            return False
        return True

    async def committed(self) -> None:
        """Wait until what was written is as durable as an answer promises.

        Raises ServiceError(STORAGE_FULL) if the store cannot write.
        """
        await self._store.committed()

    def write_backlog(self) -> None:
        """Write the events that the store refused. Raises ServiceError(STORAGE_FULL) if it still refuses."""
        self._store.check()
        while self._backlog:
            # Taken out afterwards, so that a refusal leaves the event in its place.
            self._store.append(self._backlog[0])
            self._backlog.popleft()

    def write(self, event: EventRecord) -> None:
        """Write an event, or add it to the backlog and raise ServiceError(STORAGE_FULL)."""
        try:
            self.write_backlog()
            self._store.append(event)
        except ServiceError as error:
            self._backlog.append(event)
            logger.error("trajectory_record_refused", instance_id=event.instance_id, reason=error.detail)
            raise

    def write_eventually(self, event: EventRecord) -> None:
        """Write an event now, or later with the backlog if the store refuses it."""
        with contextlib.suppress(ServiceError):
            self.write(event)

    def open(
        self,
        instance: Instance,
        created: EventRecord | None = None,
        *,
        parent: str | None = None,
        fork_sequence: int | None = None,
    ) -> None:
        """Write a new instance. If this raises ServiceError(STORAGE_FULL), the instance must not begin."""
        self.write_backlog()
        record = InstanceRecord(
            instance.instance_id,
            instance.spec.name,
            instance.task_id,
            instance.tenant,
            self._supervisor,
            self._clock.time() if created is None else created.at,
            instance.seed,
            json.dumps(instance.params).encode(),
            parent,
            fork_sequence,
        )
        self._store.open_instance(record)
        if created is None:
            return
        try:
            self._store.append(created)
        except ServiceError:
            # The instance is on record already, so its end must come there, too.
            self._backlog.append(self._never_begun(instance.instance_id, 0))
            raise

    def write_off(self, instance: Instance) -> None:
        """Record as lost an instance that was opened and must not begin."""
        self.write_eventually(self._never_begun(instance.instance_id, instance.sequence))

    def _never_begun(self, instance_id: str, sequence: int) -> EventRecord:
        return EventRecord(instance_id, sequence, EventKind.LOST, self._clock.time(), status=507)
