"""Copies of a live instance: all of those asked for, or none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sandbox_contract.episodes import ForkInstanceRequest, ForkInstanceResult
from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import reply_or_raise
from sandbox_service.trajectories.records import EventKind, EventRecord, InstanceRecord
from sandbox_service.wire.frames import Frame, Op

from .calls import ask, parse
from .creation import new_id
from .executions import OperationResult
from .instances import InstanceState
from .quotas import check_quota
from .timing import timing_ms

if TYPE_CHECKING:
    from .creation import Creation
    from .exclusive import Invocation
    from .instances import Instance
    from .live_box import LiveBox
    from .parts import Parts
    from .recovery import Recovery


class Forks:
    """The fork verb."""

    def __init__(self, parts: Parts, recovery: Recovery, creation: Creation) -> None:
        self._parts = parts
        self._recovery = recovery
        self._creation = creation

    async def fork(self, instance: Instance, invocation: Invocation) -> OperationResult:
        """Copy an instance."""
        parts, frame = self._parts, invocation.frame
        request = parse(ForkInstanceRequest, frame.body)
        if self._creation.refusing:
            raise ServiceError(ErrorCode.DRAINING, retry_after_s=1.0)
        if not instance.spec.fork:
            raise ServiceError(ErrorCode.FORK_UNSUPPORTED)
        box = instance.box or await self._recovery.rebuild(instance)
        check_quota(parts, instance.tenant, instance.spec.name, request.count)
        # All at once, or forks at the same time would all find room for theirs.
        copies = [self._reserve(instance) for _ in range(request.count)]
        run_ms = 0.0
        try:
            for copy in copies:
                run_ms += await self._copy(instance, copy, box)
            self._record(instance, copies)
        except BaseException:
            for copy in copies:
                parts.table.discard(copy)
                parts.endings.vacate(copy)
            raise
        for copy in copies:
            parts.table.activate(copy, finished=instance.state is InstanceState.FINISHED)
        return self._answer(instance, invocation, copies, run_ms)

    def _reserve(self, instance: Instance) -> Instance:
        copy = self._parts.table.reserve(
            new_id(self._parts.name), instance.tenant, instance.task_id, instance.catalog
        )
        copy.seed = instance.seed
        copy.params = instance.params
        copy.step_index = instance.step_index
        copy.sequence = instance.sequence
        copy.replayable = instance.replayable
        return copy

    async def _copy(self, instance: Instance, copy: Instance, box: LiveBox) -> float:
        """Make one copy in the source's box; milliseconds that it took there."""
        limit = self._parts.config.deadline.create_s
        box.pool.admit_copy(box, copy.instance_id)
        copy.box = box
        meta = {"copy_id": copy.instance_id, "deadline_s": limit}
        frame = Frame(Op.FORK, 0, instance.public_id, meta)
        reply = reply_or_raise(await ask(self._parts.endings, instance, box, frame, limit))
        if copy.box is None:
            raise ServiceError(ErrorCode.SANDBOX_FAILED, "the copy died as it was made")
        return float(reply.meta.get("run_ms", 0.0))

    def _record(self, instance: Instance, copies: list[Instance]) -> None:
        """Write the copies' records; where one is refused, those before it are written off as lost."""
        parts = self._parts
        now = parts.clock.time()
        opened: list[Instance] = []
        try:
            for copy in copies:
                parts.journal.open(
                    InstanceRecord(
                        copy.instance_id,
                        copy.spec.name,
                        copy.task_id,
                        copy.tenant,
                        parts.name,
                        now,
                        copy.seed,
                        json.dumps(copy.params).encode(),
                        parent=instance.instance_id,
                        fork_sequence=instance.sequence - 1,
                    ),
                    None,
                )
                opened.append(copy)
        except ServiceError:
            for copy in opened:
                parts.journal.keep(
                    EventRecord(copy.instance_id, copy.sequence, EventKind.LOST, now, status=507)
                )
            raise

    def _answer(
        self, instance: Instance, invocation: Invocation, copies: list[Instance], run_ms: float
    ) -> OperationResult:
        parts, frame = self._parts, invocation.frame
        timing = timing_ms(parts.clock.monotonic() - invocation.started, run_ms=run_ms)
        result = ForkInstanceResult(
            instance_id=instance.public_id,
            instance_ids=tuple(copy.instance_id for copy in copies),
            step_index=instance.step_index,
        )
        body = result.model_dump_json().encode()
        event = parts.journal.event(
            instance,
            EventKind.FORK,
            request=invocation.request,
            response=body,
            key=frame.meta.get("key"),
            timing_ms=timing,
        )
        return OperationResult(Frame(Op.REPLY, frame.request_id, instance.public_id, {**timing}, body), event)
