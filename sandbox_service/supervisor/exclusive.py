"""Runs operations on live instances: one at a time on each instance, and once for each idempotency key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError, is_of_node
from sandbox_service.stream.failures import error_frame
from sandbox_service.wire.frames import Frame, Op

from .doubt import resolve_doubt
from .failures import error_answer
from .idempotency import identify_request, recorded_answer
from .instances import END_CODES, InstanceState
from .timing import RequestTimer

if TYPE_CHECKING:
    from sandbox_service.trajectories.base import TrajectoryStore
    from sandbox_service.trajectories.records import EventRecord

    from .background import BackgroundTasks
    from .clock import Clock
    from .instances import Instance, InstanceTable
    from .journal import Journal
    from .takeover import Takeover

    Operation = Callable[[Instance, "Invocation"], Awaitable["ExecutedOperation"]]


_FINAL = (ErrorCode.STEP_TIMEOUT, ErrorCode.TASK_INVALID, ErrorCode.GRADER_FAILED)
"""Errors of an executed operation that stay the answer to its key."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One request for an operation on an instance."""

    frame: Frame
    request: bytes
    """The bytes that stand for the request on the record."""
    timer: RequestTimer


@dataclass(frozen=True, slots=True)
class ExecutedOperation:
    """The outcome of an operation that was executed: its key stands for it from now on."""

    frame: Frame
    event: EventRecord | None = None
    """The event that is still to be written."""
    recorded: bool = True
    """Something of it was or is to be written, so the answer waits until that is durable."""


class ExclusiveExecutor:
    """Runs operations exclusively, or answers from the idempotency key."""

    def __init__(
        self,
        *,
        table: InstanceTable,
        journal: Journal,
        store: TrajectoryStore,
        clock: Clock,
        tasks: BackgroundTasks,
        takeover: Takeover,
    ) -> None:
        self._table = table
        self._journal = journal
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._takeover = takeover

    async def run_exclusive(self, frame: Frame, operation: Operation) -> Frame:
        """Run an operation while no other one runs on its instance, or answer from the key.

        Raises ServiceError: the instance is unknown, has ended or is busy, or the key belongs to another
        request.
        """
        timer = RequestTimer(self._clock)
        key = frame.meta.get("key")
        request, digest = await identify_request(frame)
        while True:
            try:
                instance = await self._takeover.find_or_take_over(frame)
            except ServiceError as error:
                # No instance is needed for an answer that is on record.
                if key is None or not (error.code in END_CODES or is_of_node(error)):
                    raise
                return await self._recorded_answer(frame, request, error)
            self._journal.write_backlog()
            keys, known = instance.keys, None
            if key is not None and digest is not None and (keys.evicted or keys.get(key) is not None):
                known = await self._answer_of_key(instance, key, frame, request, digest)
            if known is not None:
                # The record of the first call may not be durable yet, and no answer is sent before it is.
                await self._journal.committed()
                return known
            # While the store was asked, the instance may have ended, or its handover may have begun.
            if self._table.keeps(instance):
                break
        if instance.in_doubt:
            resolve_doubt(instance, frame)
        # From this check to the entry of the key nothing is awaited: a second request that came in between
        # would find neither the instance busy nor the key taken, and would run as well.
        if instance.busy or instance.state is InstanceState.CREATING:
            raise ServiceError(ErrorCode.INSTANCE_BUSY)
        self._table.begin_use(instance)
        # The operation has a task of its own, so that it ends properly when its caller disconnects.
        task = self._tasks.spawn(self._run(instance, Invocation(frame, request, timer), operation))
        if key is not None and digest is not None:
            instance.keys.begin(key, digest, task)
        return await asyncio.shield(task)

    async def _run(self, instance: Instance, invocation: Invocation, operation: Operation) -> Frame:
        """Run an operation, record it and keep its answer under the key.

        Never raises, so that all calls that join it get the same answer.
        """
        frame = invocation.frame
        result: ExecutedOperation | None = None
        try:
            try:
                result = await operation(instance, invocation)
            except ServiceError as error:
                result = self._final_result(instance, frame, error)
            # In this order: an answer is sent when its record is durable, and not before.
            if result.event is not None:
                self._journal.write(result.event)
            if result.recorded:
                await self._journal.committed()
        except Exception as error:  # noqa: BLE001  # capture point: an operation's own failure is an answer
            return error_answer(frame, error)
        finally:
            # An operation whose record was refused has been executed, so its key keeps the result.
            answer = None if result is None else result.frame
            instance.keys.finish(instance.tenant, frame.meta.get("key"), answer)
            self._table.end_use(instance)
        return result.frame

    def _final_result(self, instance: Instance, frame: Frame, error: ServiceError) -> ExecutedOperation:
        """Return the result of an operation whose error stays the answer to its key; raise all others."""
        if error.code not in _FINAL or frame.op not in (Op.STEP, Op.EVALUATE):
            raise error
        # A timeout was recorded when it happened, before the instance ended with it.
        timeout = error.code is ErrorCode.STEP_TIMEOUT
        event = None if timeout else self._journal.failure(instance, frame, error)
        return ExecutedOperation(error_frame(frame, error), event)

    async def _answer_of_key(
        self, instance: Instance, key: str, frame: Frame, request: bytes, digest: bytes
    ) -> Frame | None:
        """Return the answer of an earlier call with the key, which may still run; None for a new key."""
        keys = instance.keys

        async def find_recorded() -> EventRecord | None:
            return await self._store.event_of_key(instance.tenant, instance.public_id, key)

        if keys.evicted and keys.get(key) is None and (event := await find_recorded()) is not None:
            return recorded_answer(event, frame, request)
        entry = keys.get(key)
        if entry is None:
            return None
        known = await keys.repeat(entry, frame, request, digest, find_recorded)
        if known is None:
            # It was executed on this instance: once more would be another step of it.
            raise ServiceError(ErrorCode.OUTCOME_UNKNOWN, "the key's answer is not on record")
        return known

    async def _recorded_answer(self, frame: Frame, request: bytes, error: ServiceError) -> Frame:
        """Return the answer of a key of an instance that is not live here; raise ``error`` for a new key."""
        meta = frame.meta
        event = await self._store.event_of_key(meta["tenant"], frame.instance_id, meta["key"])
        if event is None:
            raise error
        return recorded_answer(event, frame, request)
