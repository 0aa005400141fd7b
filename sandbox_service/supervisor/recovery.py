"""Rebuilds instances of deterministic environments from their records, and settles those of an earlier life.

A rebuilt instance has gone through the very steps on record, and each led to what it had led to. An
instance that cannot be rebuilt is lost, with an error that is never a reward.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.trajectories.records import EventKind, EventRecord
from sandbox_service.wire.frames import Frame, Op

from .calls import ask, create_frame
from .idempotency import RECORDED_AS, digest_of
from .instances import InstanceState, Tombstone, gone, unknown
from .takeover import in_doubt, last_writer, record_takeover

if TYPE_CHECKING:
    from sandbox_service.trajectories.records import InstanceRecord

    from .instances import Instance
    from .live_box import LiveBox
    from .parts import Parts


_ENDED = {
    EventKind.RELEASE: InstanceState.RELEASED,
    EventKind.EXPIRE: InstanceState.EXPIRED,
    EventKind.LOST: InstanceState.LOST,
}
_OPS = {kind: op for op, kind in RECORDED_AS.items()}
_COMPARED = ("observation", "reward", "terminated", "truncated")
_CUT_OFF = 504
"""Status of a step that was killed at its deadline, and so is no part of the state."""


class Recovery:
    """Brings instances back."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def settle_earlier_life(self) -> None:
        """Take over what an earlier supervisor of this name left: to be rebuilt at its next use, or lost."""
        store, name = self._parts.store, self._parts.name
        for record in await store.unended(name):
            events = await store.events(record.instance_id)
            # Another supervisor may have had the instance in between, and may have left steps out.
            writer = last_writer(record, events)
            self._adopt(record, events, writer, complete=await store.is_complete(writer))
        # Before the earlier life is forgotten, or a death between would forget the doubts.
        await store.flush()
        await store.begin_life(name)

    async def find_or_recover(self, frame: Frame) -> Instance:
        """Return the live instance that a frame names. Raises ServiceError when it is unknown, or gone."""
        tenant, instance_id = frame.meta["tenant"], frame.instance_id
        instance = self._parts.table.find(tenant, instance_id)
        if instance is not None:
            return instance
        return await self._recover(tenant, instance_id, adopt=frame.meta.get("adopt") is True)

    async def _recover(self, tenant: str, instance_id: str, *, adopt: bool) -> Instance:
        """Take over an instance that only the store knows. Raises ServiceError when it is unknown, or gone.

        ``adopt`` says that the supervisor that owned it is known to be dead.
        """
        parts = self._parts
        record = await parts.store.instance(tenant, instance_id)
        if record is None:
            raise unknown(instance_id)
        events = await parts.store.events(record.instance_id)
        for event in reversed(events):
            if event.kind.ends and event.instance_id == record.instance_id:
                raise gone(_ENDED[event.kind])
        if record.supervisor != parts.name and not adopt:
            raise unknown(instance_id)
        writer = last_writer(record, events)
        self._adopt(record, events, writer, complete=await parts.store.is_complete(writer))
        await parts.store.flush()
        instance = parts.table.find(tenant, instance_id)
        if instance is None:
            raise unknown(instance_id)
        return instance

    async def rebuild(self, instance: Instance) -> LiveBox:
        """Set the instance up in a box again and take it through its recorded steps.

        Raises ServiceError: INSTANCE_LOST when that is impossible, others when it may work later.
        """
        parts = self._parts
        if not instance.replayable:
            parts.endings.lose(instance, "its state cannot be rebuilt")
            raise gone(instance.state, instance.reason)
        if instance.vacating is not None:
            # The release of its former place must not hit the new one, which may be in the same box.
            await asyncio.wait({instance.vacating})
        events = await parts.store.events(instance.instance_id)
        box = await parts.pools.of(instance.spec.name).acquire(instance.tenant, instance.instance_id)
        if instance.ended:
            box.leave(instance.instance_id, clean=True)
            raise gone(instance.state, instance.reason)
        instance.box = box
        try:
            await self._replay(instance, box, events)
        except ServiceError as error:
            if error.code is ErrorCode.STEP_TIMEOUT:
                # A recorded step was killed, not the caller's: that one has not been tried.
                raise ServiceError(ErrorCode.SANDBOX_FAILED, "the replay ran past its deadline") from error
            raise
        finally:
            box.pool.set_up(instance.instance_id)
        parts.journal.keep(parts.journal.event(instance, EventKind.REPLAY))
        return box

    async def _replay(self, instance: Instance, box: LiveBox, events: Sequence[EventRecord]) -> None:
        deadline = self._parts.config.deadline
        endings = self._parts.endings
        payload = instance.catalog.payload(instance.task_id)
        request = create_frame(instance, payload, deadline.create_s)
        reply = await ask(endings, instance, box, request, deadline.create_s)
        if reply.op is Op.ERROR:
            self._give_up(instance, "it could not be set up again")
        index = 0
        for event in events:
            if event.kind is not EventKind.STEP or event.status == _CUT_OFF:
                continue
            meta = {"deadline_s": deadline.step_s, "step_index": index}
            frame = Frame(Op.STEP, 0, instance.public_id, meta, event.request)
            reply = await ask(endings, instance, box, frame, deadline.step_s)
            if not _same_outcome(event, reply):
                self._give_up(instance, f"step {index} did not lead to what is on record")
            index += event.status < 400

    def _give_up(self, instance: Instance, reason: str) -> None:
        self._parts.endings.lose(instance, f"the instance could not be rebuilt: {reason}")
        raise gone(instance.state, instance.reason)

    def _adopt(
        self, record: InstanceRecord, events: Sequence[EventRecord], writer: str, *, complete: bool
    ) -> None:
        """Make the instance of ``writer`` ours; ``complete``: all that was answered is among the events."""
        parts = self._parts
        if record.instance_id in parts.table:
            return
        catalog = parts.registry.catalogs.get(record.environment)
        if catalog is None or not catalog.spec.deterministic:
            self._bury(record, events)
            return
        instance = parts.table.reserve(record.instance_id, record.tenant, record.task_id, catalog)
        instance.seed = record.seed
        instance.params = json.loads(record.params_json)
        instance.sequence = _next_sequence(record, events)
        finished = _restore(instance, events)
        instance.doubtful = not complete or in_doubt(record, events)
        if instance.doubtful or writer != parts.name:
            record_takeover(parts.journal, instance, parts.name)
        parts.table.activate(instance, finished=finished)

    def _bury(self, record: InstanceRecord, events: Sequence[EventRecord]) -> None:
        parts = self._parts
        reason = "its supervisor ended"
        parts.journal.keep(
            EventRecord(
                record.instance_id,
                _next_sequence(record, events),
                EventKind.LOST,
                parts.clock.time(),
                status=410,
            )
        )
        parts.table.bury(
            Tombstone(
                record.instance_id,
                record.tenant,
                record.environment,
                record.task_id,
                InstanceState.LOST,
                _steps(events),
                parts.clock.monotonic(),
                reason,
            )
        )


def _next_sequence(record: InstanceRecord, events: Sequence[EventRecord]) -> int:
    own = [event.sequence for event in events if event.instance_id == record.instance_id]
    return max([*own, record.fork_sequence if record.fork_sequence is not None else -1]) + 1


def _steps(events: Sequence[EventRecord]) -> int:
    return sum(event.kind is EventKind.STEP and event.status < 400 for event in events)


def _restore(instance: Instance, events: Sequence[EventRecord]) -> bool:
    """Step index and keys out of the records; True when the episode is over."""
    instance.step_index = _steps(events)
    last: EventRecord | None = None
    for event in events:
        if event.kind is EventKind.WRITE_FILE:
            # The content is on no record, so a replay would not have it.
            instance.replayable = False
        op = _OPS.get(event.kind)
        if op is not None and event.idempotency_key is not None and event.instance_id == instance.instance_id:
            instance.keys.recall(event.idempotency_key, digest_of(op, event.request))
        if event.kind is EventKind.STEP and event.status < 400:
            last = event
    if last is None:
        return False
    result = json.loads(last.response)
    return bool(result.get("terminated") or result.get("truncated"))


def _same_outcome(event: EventRecord, reply: Frame) -> bool:
    if reply.op is Op.ERROR or event.status >= 400:
        return reply.op is Op.ERROR and event.status >= 400
    if event.response == reply.body:
        return True
    before, after = json.loads(event.response), json.loads(reply.body)
    return all(before.get(name) == after.get(name) for name in _COMPARED)
