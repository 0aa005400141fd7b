"""Grades instances in boxes of verifiers: of another image than the instance's, and for one grading each.

The world in the instance's box exports what the agent left. Where a task has several parts, it also grades
those that have no other box. A failure of a verifier's box costs the instance nothing: its grading may be
asked for again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.base import DuePart
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import reply_or_raise
from sandbox_service.trajectories.records import record_id
from sandbox_service.wire.frames import Frame, Op

from .instance_setup import create_frame
from .instances import VerifierSlot, end_error

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.config import DeadlineConfig
    from sandbox_service.environments.base import GradingPart, TaskPayload, VerifierBox
    from sandbox_service.runner.world import Verdict

    from .background import BackgroundTasks
    from .clock import Clock
    from .instances import Instance
    from .pooled_box import PooledBox
    from .pools import Pools
    from .timing import RequestTimer

    Ask = Callable[[bytes, float], Awaitable[Frame]]


_COUNT_PARTS = b'{"count_parts":true}'
_ONLY_PART = b"{}"
"""The request for the work of a task with one part."""
_BOX_GONE = (
    ErrorCode.OUTCOME_UNKNOWN,
    ErrorCode.STEP_TIMEOUT,
    ErrorCode.INSTANCE_LOST,
    ErrorCode.UNKNOWN_INSTANCE,
)
"""Errors of a verifier's box that are none of the instance."""
_LEAST_S = 1.0


class VerifierBoxes:
    """Takes a slot in a box for each grading, and gives it back."""

    def __init__(
        self, *, pools: Pools, deadlines: DeadlineConfig, clock: Clock, tasks: BackgroundTasks
    ) -> None:
        self._pools = pools
        self._deadlines = deadlines
        self._clock = clock
        self._tasks = tasks

    async def prepare(self, instance: Instance, payload: TaskPayload) -> None:
        """Set a verifier's world up once for each image, so that a task without one is refused early.

        Raises ServiceError as ``BoxPool.acquire`` does, or as the world.
        """
        boxes = [part.verifier for part in payload.parts if part.verifier is not None]
        images = {(box.image.digest, box.image.resources): box for box in boxes}
        # At the same time, so that a create waits in one queue only.
        proofs = [asyncio.ensure_future(self._prove(instance, payload, box)) for box in images.values()]
        try:
            await asyncio.gather(*proofs)
        finally:
            for proof in proofs:
                proof.cancel()
            await asyncio.gather(*proofs, return_exceptions=True)

    async def grade_instance(
        self,
        instance: Instance,
        payload: TaskPayload,
        params: dict[str, JsonValue],
        ask: Ask,
        timer: RequestTimer,
        limit_s: float,
    ) -> Frame:
        """Return the verdict on all parts, within ``limit_s`` seconds without those in queues.

        ``ask`` sends the body of an evaluation to the instance's box, for the seconds that it is given.
        Raises ServiceError: as ``BoxPool.acquire`` and ``ask`` do, GRADER_FAILED, DEADLINE_EXCEEDED,
        SANDBOX_FAILED, or that the instance has ended meanwhile.
        """
        grading = _Grading(instance, payload, params, ask, timer)
        if len(payload.parts) == 1:
            return await self._grade_elsewhere(grading, payload.parts[0], _ONLY_PART, limit_s)
        return await self._grade_parts(grading, limit_s)

    async def _grade_parts(self, grading: _Grading, limit_s: float) -> Frame:
        payload, timer = grading.payload, grading.timer
        assert payload.combine is not None
        counted = await grading.ask(_COUNT_PARTS, self._deadlines.evaluate_s)
        timer.add_run(counted)
        results: list[dict[str, JsonValue]] = []
        whole_s = sum(part.evaluate_s for part in payload.parts)
        while isinstance(found := payload.combine(grading.params, counted.meta["parts"], results), DuePart):
            part, request = payload.parts[found.number], json.dumps(found.request).encode()
            # A share of its own: no part uses up the time of those behind it.
            part_s = limit_s * part.evaluate_s / whole_s
            if part.verifier is None:
                graded = await grading.ask(_evaluation(grading.params, part.grading, part=request), part_s)
            else:
                graded = await self._grade_elsewhere(grading, part, request, part_s)
            timer.add_run(graded)
            results.append(json.loads(graded.body)["details"])
        return _verdict_frame(grading.instance, found)

    async def _prove(self, instance: Instance, payload: TaskPayload, verifier: VerifierBox) -> None:
        pool = self._pools.of_verifier(instance.spec.name, verifier.image)
        if pool.proven:
            return
        slot = await self._slot(instance, verifier)
        if slot.box.pool.proven:
            slot.box.leave(slot.name, clean=True)
            return
        try:
            await self._set_up(slot, instance, payload, verifier)
            pool.proven = True
        finally:
            self._tasks.spawn(slot.box.clear(slot.name, self._deadlines.release_s))

    async def _grade_elsewhere(
        self, grading: _Grading, part: GradingPart, request: bytes, limit_s: float
    ) -> Frame:
        """Return the answer of a verifier's box, within ``limit_s`` seconds from when there is one."""
        instance = grading.instance
        assert part.verifier is not None
        if instance.verifier_cleanup is not None:
            # In its box the next grading of the instance has the same name.
            await asyncio.shield(instance.verifier_cleanup)
        # The slot first: what waits for one must not keep many megabytes in memory.
        slot = await grading.timer.queue(self._slot(instance, part.verifier))
        instance.verifier_slot = slot
        try:
            if instance.ended:
                raise end_error(instance.state, instance.reason)
            # Only now: the time in the queue must not be missing for the tests.
            end = self._clock.monotonic() + limit_s
            exported = await grading.ask(b'{"export_work":' + request + b"}", limit_s)
            grading.timer.add_run(exported)
            return await self._grade_work(slot, grading, part, exported.body, end)
        finally:
            instance.clear_verifier(self._tasks, self._deadlines.release_s)

    async def _grade_work(
        self, slot: VerifierSlot, grading: _Grading, part: GradingPart, work: bytes, end: float
    ) -> Frame:
        instance = grading.instance
        assert part.verifier is not None
        try:
            await self._set_up(slot, instance, grading.payload, part.verifier)
            rest_s = max(_LEAST_S, end - self._clock.monotonic())
            body = _evaluation(grading.params, part.grading, work=work)
            frame = Frame(Op.EVALUATE, 0, instance.public_id, {"deadline_s": rest_s}, body)
            reply = await _request(slot.box, frame, rest_s)
        except ServiceError as error:
            if instance.ended:
                raise end_error(instance.state, instance.reason) from error
            raise
        if instance.ended:
            raise end_error(instance.state, instance.reason)
        return reply

    async def _slot(self, instance: Instance, verifier: VerifierBox) -> VerifierSlot:
        # Its pool knows it by a name of its own. The box knows it by the instance's id, which its answer has.
        name = record_id(f"verifier.{secrets.token_hex(16)}", instance.public_id)
        pool = self._pools.of_verifier(instance.spec.name, verifier.image)
        return VerifierSlot(await pool.acquire(instance.tenant, name), name)

    async def _set_up(
        self, slot: VerifierSlot, instance: Instance, payload: TaskPayload, verifier: VerifierBox
    ) -> None:
        create_s = self._deadlines.create_s
        graded = replace(payload, task=verifier.task)
        await _request(slot.box, create_frame(instance, graded, create_s), create_s)
        slot.box.pool.set_up(slot.name)


@dataclass(frozen=True, slots=True)
class _Grading:
    """One grading of an instance."""

    instance: Instance
    payload: TaskPayload
    params: dict[str, JsonValue]
    ask: Ask
    timer: RequestTimer


def _evaluation(params: dict[str, JsonValue], grading: dict[str, JsonValue], **graded: bytes) -> bytes:
    """Return the body of an evaluation, with JSON that says what is graded."""
    # What the agent left may have many megabytes: it is not parsed here.
    begun = b"".join(b'"%s":%s,' % (name.encode(), content) for name, content in graded.items())
    rest = json.dumps({"params": params, "grading": grading}).encode()
    return b"{" + begun + rest[1:]


def _verdict_frame(instance: Instance, verdict: Verdict) -> Frame:
    """Return the frame with which a box would answer."""
    meta = {"score": verdict.score, "success": verdict.success}
    body = {"instance_id": instance.public_id, **meta, "details": verdict.details}
    return Frame(Op.REPLY, 0, instance.public_id, meta, json.dumps(body, separators=(",", ":")).encode())


async def _request(box: PooledBox, frame: Frame, limit_s: float) -> Frame:
    try:
        return reply_or_raise(await box.execute(frame, limit_s))
    except ServiceError as error:
        if error.code in _BOX_GONE:
            detail = f"the box of the verifier failed: {error.detail}"
            raise ServiceError(ErrorCode.SANDBOX_FAILED, detail) from error
        raise
