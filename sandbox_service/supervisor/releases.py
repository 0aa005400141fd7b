"""Answers RELEASE frames: idempotent, and without waiting for a running operation."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from sandbox_contract.episodes import ReleaseInstanceResult
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .idempotency import conflict, recorded_answer
from .instances import END_CODES, InstanceState
from .timing import RequestTimer

if TYPE_CHECKING:
    from sandbox_service.trajectories.base import TrajectoryStore
    from sandbox_service.trajectories.records import EventRecord
    from sandbox_service.wire.frames import Frame

    from .clock import Clock
    from .instances import Instance, InstanceTable
    from .journal import Journal
    from .takeover import Takeover
    from .termination import Termination


class Releases:
    """Ends instances for their owners."""

    def __init__(
        self,
        *,
        table: InstanceTable,
        journal: Journal,
        store: TrajectoryStore,
        clock: Clock,
        termination: Termination,
        takeover: Takeover,
    ) -> None:
        self._table = table
        self._journal = journal
        self._store = store
        self._clock = clock
        self._termination = termination
        self._takeover = takeover

    async def release(self, frame: Frame) -> Frame:
        """End the instance; one that had ended before is reported as not released. Refuse an unknown id."""
        timer = RequestTimer(self._clock)
        key = frame.meta.get("key")
        while True:
            instance = await self._find(frame)
            if instance is None:
                return await self._answer_of_ended(frame, timer)
            if key is not None and await self._is_used(instance, frame, key):
                raise conflict(frame)
            # While the store was asked, the instance may have ended, or its handover may have begun.
            if self._table.keeps(instance):
                break
        if instance.state is InstanceState.CREATING:
            raise ServiceError(ErrorCode.INSTANCE_BUSY, "the instance is being created")
        body = _body(frame, released=True)
        await self._termination.release(instance, frame, body)
        # It has ended even if its record is refused: a full disk must not keep a box busy.
        with contextlib.suppress(ServiceError):
            await self._journal.committed()
        return frame.reply(body, timer.split())

    async def _find(self, frame: Frame) -> Instance | None:
        """Return the live instance; None if it has ended."""
        try:
            return await self._takeover.find_or_take_over(frame)
        except ServiceError as error:
            if error.code in END_CODES:
                return None
            raise

    async def _answer_of_ended(self, frame: Frame, timer: RequestTimer) -> Frame:
        """Return the answer of the release under this key, or report that there is nothing to release."""
        key = frame.meta.get("key")
        tombstone = self._table.tombstone(frame.meta["tenant"], frame.instance_id)
        if key is not None and tombstone is not None and tombstone.ended_by_key == key:
            return frame.reply(_body(frame, released=True), timer.split())
        if key is not None and (event := await self._recorded(frame, key)) is not None:
            return recorded_answer(event, frame, frame.body)
        return frame.reply(_body(frame, released=False), timer.split())

    async def _is_used(self, instance: Instance, frame: Frame, key: str) -> bool:
        """Return whether another operation on the instance has used the key."""
        if instance.keys.get(key) is not None:
            return True
        return instance.keys.evicted and await self._recorded(frame, key) is not None

    async def _recorded(self, frame: Frame, key: str) -> EventRecord | None:
        return await self._store.event_of_key(frame.meta["tenant"], frame.instance_id, key)


def _body(frame: Frame, *, released: bool) -> bytes:
    result = ReleaseInstanceResult(instance_id=frame.instance_id, released=released)
    return result.model_dump_json().encode()
