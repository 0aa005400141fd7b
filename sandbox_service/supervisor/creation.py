"""Creates instances in two phases: a reserved id and a place first, a set-up world second.

Whatever fails on the way, the id is free again, the place is cleared, and nothing is left.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from typing import TYPE_CHECKING

from sandbox_contract.episodes import CreateInstanceRequest
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_of
from sandbox_service.trajectories.records import EventKind, InstanceRecord, record_id
from sandbox_service.wire.frames import Frame, Op

from .calls import create_frame, parse
from .executions import OperationResult, execute, repeat
from .idempotency import KeyMemory, fingerprint_of, recorded_answer
from .quotas import check_quota
from .timing import timing_ms
from .used_keys import MOST_KEYS, UsedKeys

if TYPE_CHECKING:
    from sandbox_service.environments.base import TaskPayload
    from sandbox_service.trajectories.records import EventRecord

    from .instances import Instance
    from .parts import Parts


_REMEMBERED_ANSWERS = 2048
_REMEMBERED_KEYS = 65_536
"""Keys whose running or latest creates are in memory; all others are looked up."""


class Creation:
    """The create verb."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._keys: KeyMemory[tuple[str, str]] = KeyMemory(
            parts.answers, _REMEMBERED_ANSWERS, _REMEMBERED_KEYS
        )
        self._used: UsedKeys | None = None
        """Keys that may be on record; None when only the store can tell."""
        self.refusing = False
        """The supervisor drains: no new instance."""

    async def recall(self) -> None:
        """Learn which keys are on record, so that new ones need no look into the store."""
        keys = await self._parts.store.create_keys(MOST_KEYS)
        self._used = None if keys is None else UsedKeys(keys)

    async def create(self, frame: Frame) -> Frame:
        """Start an episode, or answer from the key."""
        parts = self._parts
        parts.journal.settle()
        tenant, key = frame.meta["tenant"], frame.meta.get("key")
        slot: tuple[str, str] | None = None if key is None else (tenant, key)
        digest = await fingerprint_of(frame, frame.body)
        # From here to the task nothing is awaited, or two creates under one key would both begin.
        if slot is not None and digest is not None and (entry := self._keys.get(slot)) is not None:
            known = await repeat(self._keys, entry, frame, frame.body, digest, lambda: self._recorded(*slot))
            await parts.journal.committed()
            return known
        if self.refusing:
            raise ServiceError(ErrorCode.DRAINING, retry_after_s=1.0)
        task = parts.tasks.spawn(self._execute(slot, frame))
        if slot is not None and digest is not None:
            self._keys.begin(slot, digest, task)
        return await asyncio.shield(task)

    async def _execute(self, slot: tuple[str, str] | None, frame: Frame) -> Frame:
        return await execute(self._keys, slot, frame, self._parts.journal, self._create(frame))

    async def _create(self, frame: Frame) -> OperationResult:
        earlier = await self._on_record(frame)
        if earlier is not None:
            return OperationResult(recorded_answer(earlier, frame, frame.body), recorded=False)
        started = self._parts.clock.monotonic()
        request = parse(CreateInstanceRequest, frame.body)
        payload = self._parts.registry.catalog(request.environment).payload(request.task_id)
        instance = await self._reserve(frame.meta["tenant"], request)
        try:
            reply, queue_ms = await self._set_up(instance, payload, fresh=request.fresh)
            run_ms = float(reply.meta.get("run_ms", 0.0))
            total_s = self._parts.clock.monotonic() - started
            timing = timing_ms(total_s, run_ms=run_ms, queue_ms=queue_ms)
            self._record(instance, frame, reply, timing)
        except BaseException:
            self._parts.table.discard(instance)
            self._parts.endings.vacate(instance)
            raise
        self._parts.table.activate(instance)
        return OperationResult(Frame(Op.REPLY, frame.request_id, instance.public_id, {**timing}, reply.body))

    async def _reserve(self, tenant: str, request: CreateInstanceRequest) -> Instance:
        parts = self._parts
        catalog = parts.registry.catalog(request.environment)
        chosen = request.instance_id
        if chosen is None:
            unique = new_id(parts.name)
        else:
            unique = record_id(tenant, chosen)
            known = parts.table.remembers(tenant, chosen)
            if known or await parts.store.instance(tenant, chosen) is not None:
                raise ServiceError(ErrorCode.DUPLICATE_INSTANCE, f"the id {chosen!r} is taken")
        # After the last wait, or creates at the same time would all find room for one.
        check_quota(parts, tenant, request.environment, 1)
        instance = parts.table.reserve(unique, tenant, request.task_id, catalog)
        instance.seed = secrets.randbits(63) if request.seed is None else request.seed
        instance.params = request.params
        return instance

    async def _set_up(self, instance: Instance, payload: TaskPayload, *, fresh: bool) -> tuple[Frame, float]:
        """A place, and a world in it. A box that died while it was idle costs a second try, not a failure."""
        clock, pool = self._parts.clock, self._parts.pools.of(instance.spec.name)
        limit = self._parts.config.deadline.create_s
        request = create_frame(instance, payload, limit)
        queue_ms = 0.0
        for last in (False, True):
            asked = clock.monotonic()
            box = await pool.acquire(instance.tenant, instance.instance_id, fresh=fresh)
            queue_ms += (clock.monotonic() - asked) * 1000
            instance.box = box
            try:
                reply = await box.execute(request, limit)
            except ServiceError as error:
                if box.doomed:
                    # Its place went with the box. In a box that lives it is cleared.
                    instance.take_box()
                if last or error.code is not ErrorCode.OUTCOME_UNKNOWN:
                    raise ServiceError(ErrorCode.SANDBOX_FAILED, error.detail) from error
            else:
                made = _made(reply)
                pool.set_up(instance.instance_id)
                return made, queue_ms
        raise AssertionError("the second try returns or raises")

    def _record(self, instance: Instance, frame: Frame, reply: Frame, timing: dict[str, float]) -> None:
        journal = self._parts.journal
        created = journal.event(
            instance,
            EventKind.CREATE,
            request=frame.body,
            response=reply.body,
            key=frame.meta.get("key"),
            timing_ms=timing,
        )
        record = InstanceRecord(
            instance.instance_id,
            instance.spec.name,
            instance.task_id,
            instance.tenant,
            self._parts.name,
            created.at,
            instance.seed,
            json.dumps(instance.params).encode(),
        )
        journal.open(record, created)

    async def _on_record(self, frame: Frame) -> EventRecord | None:
        """The create that was made under the key and is not in memory any more."""
        key = frame.meta.get("key")
        if key is None:
            return None
        if self._used is not None:
            if key not in self._used:
                self._used.add(key)
                return None
            # A key that left the memory a moment ago may still be on its way to the store.
            await self._parts.store.flush()
        return await self._parts.store.created_by_key(frame.meta["tenant"], key)

    async def _recorded(self, tenant: str, key: str) -> EventRecord | None:
        await self._parts.store.flush()
        return await self._parts.store.created_by_key(tenant, key)


def _made(reply: Frame) -> Frame:
    """The reply to CREATE. An instance that died as it was made is no instance that was lost."""
    if reply.op is Op.ERROR:
        error = error_of(reply)
        if error.code is ErrorCode.INSTANCE_LOST:
            raise ServiceError(ErrorCode.SANDBOX_FAILED, error.detail)
        raise error
    return reply


def new_id(supervisor: str) -> str:
    """An unguessable id that names its supervisor."""
    return f"{supervisor}.{secrets.token_hex(16)}"
