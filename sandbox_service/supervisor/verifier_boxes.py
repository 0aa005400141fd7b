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

    from sandbox_service.config import ServiceConfig
    from sandbox_service.environments.base import BoxResources, GradingPart, TaskPayload, VerifierBox
    from sandbox_service.runner.world import Verdict

    from .background import BackgroundTasks
    from .clock import Clock
    from .instances import Instance
    from .pooled_box import PooledBox
    from .pools import Pools
    from .timing import RequestTimer

    Ask = Callable[[bytes, float], Awaitable[Frame]]
    _ImageKey = tuple[str, str, BoxResources]
    """An environment, and the digest and needs of an image of its tasks."""


_COUNT_PARTS = b'{"count_parts":true}'
_ONLY_PART: dict[str, JsonValue] = {}
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

    def __init__(self, *, config: ServiceConfig, pools: Pools, clock: Clock, tasks: BackgroundTasks) -> None:
        self._images_at_once = config.sandbox.task_images.images_with_boxes
        self._proven: set[_ImageKey] = set()
        """Images of verifiers in which a world was set up; their boxes may be gone since."""
        self._pools = pools
        self._deadlines = config.deadline
        self._clock = clock
        self._tasks = tasks

    async def prepare(self, instance: Instance, payload: TaskPayload) -> None:
        """Set a verifier's world up once for each image, so that a task without one is refused early.

        Raises ServiceError as ``BoxPool.acquire`` does, or as the world.
        """
        boxes = [part.verifier for part in payload.parts if part.verifier is not None]
        images = {_key(instance, box): box for box in boxes}
        # At the same time, so that a create waits in few queues, and no more than may have boxes.
        turns = asyncio.Semaphore(self._images_at_once)
        proofs = [
            asyncio.ensure_future(self._prove(instance, payload, box, turns))
            for key, box in images.items()
            if key not in self._proven
        ]
        try:
            # Each to its end, so that a create that is sent again has fewer to wait for.
            ends = await asyncio.gather(*proofs, return_exceptions=True)
        finally:
            for proof in proofs:
                proof.cancel()
            await asyncio.gather(*proofs, return_exceptions=True)
        for error in ends:
            if error is not None:
                raise error

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
        began = self._clock.monotonic()
        # The world may copy what the agent has left so far.
        counted = await grading.ask(_COUNT_PARTS, limit_s)
        timer.add_run(counted)
        limit_s = max(_LEAST_S, limit_s - (self._clock.monotonic() - began))
        results: list[dict[str, JsonValue]] = []
        raised: dict[str, JsonValue] = {}
        whole_s = sum(part.evaluate_s for part in payload.parts)
        while isinstance(found := payload.combine(grading.params, counted.meta["parts"], results), DuePart):
            part, request = payload.parts[found.number], found.request
            # A share of its own: no part uses up the time of those behind it.
            part_s = limit_s * part.evaluate_s / whole_s
            if part.verifier is None:
                graded = await grading.ask(_evaluation(grading, part, request), part_s)
            else:
                graded = await self._grade_elsewhere(grading, part, request, part_s)
            timer.add_run(graded)
            results.append(json.loads(graded.body)["details"])
            if "exception" in graded.meta:
                raised.setdefault("exception", graded.meta["exception"])
        return _verdict_frame(grading.instance, found, raised)

    async def _prove(
        self, instance: Instance, payload: TaskPayload, verifier: VerifierBox, turns: asyncio.Semaphore
    ) -> None:
        async with turns:
            slot = await self._slot(instance, verifier)
            if _key(instance, verifier) in self._proven:
                slot.box.leave(slot.name, clean=True)
                return
            try:
                await self._set_up(slot, instance, payload, verifier)
                self._proven.add(_key(instance, verifier))
            finally:
                cleared = self._tasks.spawn(slot.box.clear(slot.name, self._deadlines.release_s))
            # Until then the image is in use, and keeps another one from having boxes.
            await asyncio.wait([cleared])

    async def _grade_elsewhere(
        self, grading: _Grading, part: GradingPart, request: dict[str, JsonValue], limit_s: float
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
            exported = await grading.ask(json.dumps({"export_work": request}).encode(), limit_s)
            grading.timer.add_run(exported)
            body = _evaluation(grading, part, request, exported.body)
            return await self._grade_work(slot, grading, part, body, end)
        finally:
            instance.clear_verifier(self._tasks, self._deadlines.release_s)

    async def _grade_work(
        self, slot: VerifierSlot, grading: _Grading, part: GradingPart, body: bytes, end: float
    ) -> Frame:
        instance = grading.instance
        assert part.verifier is not None
        try:
            await self._set_up(slot, instance, grading.payload, part.verifier)
            rest_s = max(_LEAST_S, end - self._clock.monotonic())
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


def _key(instance: Instance, verifier: VerifierBox) -> _ImageKey:
    return instance.spec.name, verifier.image.digest, verifier.image.resources


def _evaluation(
    grading: _Grading, part: GradingPart, request: dict[str, JsonValue], work: bytes | None = None
) -> bytes:
    """Return the body of the evaluation of a part; ``work`` is JSON that comes from the instance's box."""
    body = {"params": grading.params, "grading": part.grading, "part": request}
    rest = json.dumps(body).encode()
    # It may have many megabytes: it is not parsed here. Whatever keys it brings, the last ones count.
    return rest if work is None else b'{"work":' + work + b"," + rest[1:]


def _verdict_frame(instance: Instance, verdict: Verdict, raised: dict[str, JsonValue]) -> Frame:
    """Return the frame with which a box would answer; ``raised`` names an exception of a world."""
    read = {"score": verdict.score, "success": verdict.success}
    body = {"instance_id": instance.public_id, **read, "details": verdict.details}
    meta = {**read, **raised}
    return Frame(Op.REPLY, 0, instance.public_id, meta, json.dumps(body, separators=(",", ":")).encode())


async def _request(box: PooledBox, frame: Frame, limit_s: float) -> Frame:
    try:
        return reply_or_raise(await box.execute(frame, limit_s))
    except ServiceError as error:
        if error.code in _BOX_GONE:
            detail = f"the box of the verifier failed: {error.detail}"
            raise ServiceError(ErrorCode.SANDBOX_FAILED, detail) from error
        raise
