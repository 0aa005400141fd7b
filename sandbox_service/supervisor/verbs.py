"""Operations on a live instance: step, evaluate, fork and files, one at a time and once for each key.

A step's body and its result pass through unread: the hot path looks only at frames' meta.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from sandbox_contract.episodes import EvaluateRequest
from sandbox_contract.problems import ERROR_SPECS, ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_frame, reply_or_raise
from sandbox_service.wire.frames import Frame, Op

from .calls import NotStartedError, ask, parse
from .executions import Answer, execute, repeat
from .idempotency import RECORDED_AS, description_of_write, fingerprint_of, recorded_answer
from .instances import GONE, InstanceState
from .takeover import require_proof

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sandbox_service.trajectories.records import EventRecord

    from .instances import Instance
    from .parts import Parts
    from .recovery import Recovery

    Work = Callable[[Instance, Frame, float], Awaitable[Answer]]

__all__ = ["Verbs"]

_FINAL = (ErrorCode.STEP_TIMEOUT, ErrorCode.TASK_INVALID, ErrorCode.GRADER_FAILED)
"""Errors that an executed operation may end with: they stay the answer to its key."""
_REBUILDS = 3
"""How often an operation is asked when neighbours end the worker before it is started."""


class Verbs:
    """What can be done with a live instance."""

    def __init__(self, parts: Parts, recovery: Recovery) -> None:
        self._parts = parts
        self._recovery = recovery

    async def step(self, frame: Frame) -> Frame:
        """One action."""
        return await self.alone(frame, self._step)

    async def evaluate(self, frame: Frame) -> Frame:
        """Grade."""
        return await self.alone(frame, self._evaluate)

    async def read_files(self, frame: Frame) -> Frame:
        """Read a file, or list a directory."""
        return await self.alone(frame, self._read_files)

    async def write_file(self, frame: Frame) -> Frame:
        """Write a file."""
        described = await description_of_write(frame)
        return await self.alone(frame, partial(self._write_file, described), described)

    async def alone(self, frame: Frame, work: Work, request: bytes | None = None) -> Frame:
        """Run ``work`` with the instance to itself, or answer from its key.

        ``request`` is what the record has of the request, where that is not its body.
        Raises ServiceError: the instance is unknown, gone or busy, or the key belongs to another request.
        """
        parts = self._parts
        started = parts.clock.monotonic()
        meta = frame.meta
        key = meta.get("key")
        if request is None:
            request = frame.body
        digest = await fingerprint_of(frame, request)
        try:
            instance = parts.table.find(meta["tenant"], frame.instance_id)
            if instance is None:
                adopt = meta.get("adopt") is True
                instance = await self._recovery.find(meta["tenant"], frame.instance_id, adopt=adopt)
        except ServiceError as error:
            if key is None or error.code not in GONE:
                raise
            return await self._answer_of_ended(frame, request, error)
        parts.journal.settle()
        keys, known = instance.keys, None
        if key is not None and digest is not None and (keys.trimmed or keys.get(key) is not None):
            known = await self._answer_of_key(instance, key, frame, request, digest)
        if known is not None:
            await parts.journal.committed()
            return known
        if instance.doubtful:
            require_proof(instance, frame)
        if instance.busy or instance.state is InstanceState.CREATING:
            raise ServiceError(ErrorCode.INSTANCE_BUSY)
        parts.table.begin_use(instance)
        task = parts.tasks.spawn(self._execute(instance, frame, work, started))
        if key is not None and digest is not None:
            instance.keys.begin(key, digest, task)
        return await asyncio.shield(task)

    async def _answer_of_key(
        self, instance: Instance, key: str, frame: Frame, request: bytes, digest: bytes
    ) -> Frame | None:
        """The answer that an earlier call under the key got, or gets; None for a new key."""
        keys = instance.keys

        async def recorded() -> EventRecord | None:
            return await self._parts.store.event_of_key(instance.tenant, instance.public_id, key)

        if keys.trimmed and keys.get(key) is None and (event := await recorded()) is not None:
            return recorded_answer(event, frame, request)
        entry = keys.get(key)
        return None if entry is None else await repeat(keys, entry, frame, request, digest, recorded)

    async def _answer_of_ended(self, frame: Frame, request: bytes, error: ServiceError) -> Frame:
        """The answer of a key of an instance that has ended; raises ``error`` for a new key."""
        meta = frame.meta
        event = await self._parts.store.event_of_key(meta["tenant"], frame.instance_id, meta["key"])
        if event is None:
            raise error
        return recorded_answer(event, frame, request)

    async def _execute(self, instance: Instance, frame: Frame, work: Work, started: float) -> Frame:
        try:
            key = frame.meta.get("key")
            outcome = self._outcome(instance, frame, work, started)
            return await execute(instance.keys, key, frame, self._parts.journal, outcome)
        finally:
            self._parts.table.end_use(instance)

    async def _outcome(self, instance: Instance, frame: Frame, work: Work, started: float) -> Answer:
        try:
            return await work(instance, frame, started)
        except ServiceError as error:
            if error.code not in _FINAL or frame.op not in (Op.STEP, Op.EVALUATE):
                raise
            # A timeout was recorded when it came.
            timeout = error.code is ErrorCode.STEP_TIMEOUT
            return Answer(
                error_frame(frame, error), None if timeout else self._failed(instance, frame, error)
            )

    def _failed(self, instance: Instance, frame: Frame, error: ServiceError) -> EventRecord:
        return self._parts.journal.event(
            instance,
            RECORDED_AS[frame.op],
            request=frame.body,
            response=error.problem(instance=instance.public_id).model_dump_json().encode(),
            status=ERROR_SPECS[error.code].status,
            key=frame.meta.get("key"),
        )

    async def _step(self, instance: Instance, frame: Frame, started: float) -> Answer:
        meta = frame.meta
        if instance.state is InstanceState.FINISHED:
            raise ServiceError(ErrorCode.INSTANCE_FINISHED)
        index = instance.step_index
        if meta.get("step_index", index) not in (index, None):
            detail = f"the next step is {index}, not {meta['step_index']}"
            raise ServiceError(ErrorCode.STEP_INDEX_MISMATCH, detail)
        limit = self._parts.config.deadline.step_s
        limit = min(meta.get("timeout_s") or limit, limit)
        asked = {"deadline_s": limit, "step_index": index}
        reply = await self._ask(instance, Op.STEP, asked, frame.body, limit, frame)
        instance.step_index = index + 1
        if reply.meta.get("terminated") or reply.meta.get("truncated"):
            instance.state = InstanceState.FINISHED
        return self._answer(instance, frame, reply, started, reply.meta.get("reward"))

    async def _evaluate(self, instance: Instance, frame: Frame, started: float) -> Answer:
        request = parse(EvaluateRequest, frame.body)
        grading = instance.catalog.payload(instance.task_id).grading
        body = json.dumps({"params": request.params, "grading": grading}).encode()
        limit = self._parts.config.deadline.evaluate_s
        reply = await self._ask(instance, Op.EVALUATE, {"deadline_s": limit}, body, limit, frame)
        return self._answer(instance, frame, reply, started, reply.meta.get("score"))

    async def _read_files(self, instance: Instance, frame: Frame, started: float) -> Answer:
        reply = await self._ask_for_files(instance, frame)
        meta = {**reply.meta, **self._timing(reply, started)}
        answer = Frame(Op.REPLY, frame.request_id, instance.public_id, meta, reply.body)
        return Answer(answer, recorded=False)

    async def _write_file(self, described: bytes, instance: Instance, frame: Frame, started: float) -> Answer:
        # The content is on no record, so a replay would not have it.
        instance.replayable = False
        reply = await self._ask_for_files(instance, frame)
        return self._answer(instance, frame, reply, started, None, described)

    async def _ask_for_files(self, instance: Instance, frame: Frame) -> Frame:
        if not instance.spec.agent_code:
            raise ServiceError(ErrorCode.FILES_UNSUPPORTED)
        limit = self._parts.config.deadline.step_s
        meta: dict[str, Any] = {"deadline_s": limit}
        meta |= {name: frame.meta[name] for name in ("path", "max_bytes") if name in frame.meta}
        return await self._ask(instance, frame.op, meta, frame.body, limit)

    async def _ask(
        self,
        instance: Instance,
        op: Op,
        meta: dict[str, Any],
        body: bytes,
        limit_s: float,
        asked: Frame | None = None,
    ) -> Frame:
        """Ask the box; ``asked`` is what the caller sent, where a timeout is the answer to it for ever."""
        frame = Frame(op, 0, instance.public_id, meta, body)
        on_timeout = None if asked is None else partial(self._timed_out, instance, asked)
        for _ in range(_REBUILDS):
            try:
                box = instance.box or await self._recovery.rebuild(instance)
                return reply_or_raise(
                    await ask(self._parts.endings, instance, box, frame, limit_s, on_timeout)
                )
            except NotStartedError as error:
                failure = error
        raise failure

    def _timed_out(self, instance: Instance, asked: Frame, error: ServiceError) -> None:
        self._parts.journal.keep(self._failed(instance, asked, error))

    def _answer(
        self,
        instance: Instance,
        frame: Frame,
        reply: Frame,
        started: float,
        reward: float | None,
        request: bytes | None = None,
    ) -> Answer:
        timing = self._timing(reply, started)
        event = self._parts.journal.event(
            instance,
            RECORDED_AS[frame.op],
            request=frame.body if request is None else request,
            response=reply.body,
            key=frame.meta.get("key"),
            reward=reward,
            timing_ms=timing,
        )
        return Answer(Frame(Op.REPLY, frame.request_id, instance.public_id, {**timing}, reply.body), event)

    def _timing(self, reply: Frame, started: float) -> dict[str, float]:
        run = float(reply.meta.get("run_ms", 0.0))
        total = (self._parts.clock.monotonic() - started) * 1000
        return {"queue_ms": 0.0, "route_ms": round(max(0.0, total - run), 3), "run_ms": run}
