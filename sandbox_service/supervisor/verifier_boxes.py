"""Grades instances in boxes of verifiers: of another image than the instance's, and for one grading each.

The world in the instance's box exports what the agent left. A failure of the verifier's box costs the
instance nothing: its grading may be asked for again.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import reply_or_raise
from sandbox_service.trajectories.records import record_id
from sandbox_service.wire.frames import Frame, Op

from .instance_setup import create_frame
from .instances import VerifierSlot, end_error

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.config import DeadlineConfig
    from sandbox_service.environments.base import TaskPayload, VerifierBox

    from .background import BackgroundTasks
    from .clock import Clock
    from .instances import Instance
    from .pooled_box import PooledBox
    from .pools import Pools
    from .timing import RequestTimer

    Export = Callable[[float], Awaitable[Frame]]


EXPORT_WORK = b'{"export_work":true}'
"""Body of the evaluation that asks the instance's box for what the agent left."""
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
        verifier = _verifier(payload)
        pool = self._pools.of_verifier(instance.spec.name, verifier.image)
        if pool.proven:
            return
        slot = await self._slot(instance, verifier)
        if slot.box.pool.proven:
            slot.box.leave(slot.name, clean=True)
            return
        try:
            await self._set_up(slot, instance, payload)
            pool.proven = True
        finally:
            self._tasks.spawn(slot.box.clear(slot.name, self._deadlines.release_s))

    async def grade_instance(
        self,
        instance: Instance,
        payload: TaskPayload,
        params: dict[str, JsonValue],
        export: Export,
        timer: RequestTimer,
        limit_s: float,
    ) -> Frame:
        """Return the answer of a verifier's box, within ``limit_s`` seconds from when there is one.

        ``export`` gets what the agent left from the instance's box, within the seconds that it is given.
        Raises ServiceError: as ``BoxPool.acquire`` and ``export`` do, GRADER_FAILED, DEADLINE_EXCEEDED,
        SANDBOX_FAILED, or that the instance has ended meanwhile.
        """
        if instance.verifier_cleanup is not None:
            # In its box the next grading of the instance has the same name.
            await asyncio.shield(instance.verifier_cleanup)
        # The slot first: what waits for one must not keep many megabytes in memory.
        slot = await timer.queue(self._slot(instance, _verifier(payload)))
        instance.verifier_slot = slot
        try:
            if instance.ended:
                raise end_error(instance.state, instance.reason)
            # Only now: the time in the queue must not be missing for the tests.
            end = self._clock.monotonic() + limit_s
            exported = await export(limit_s)
            timer.add_run(exported)
            return await self._grade_work(slot, instance, payload, params, exported.body, end)
        finally:
            instance.clear_verifier(self._tasks, self._deadlines.release_s)

    async def _grade_work(
        self,
        slot: VerifierSlot,
        instance: Instance,
        payload: TaskPayload,
        params: dict[str, JsonValue],
        work: bytes,
        end: float,
    ) -> Frame:
        try:
            await self._set_up(slot, instance, payload)
            rest_s = max(_LEAST_S, end - self._clock.monotonic())
            frame = _evaluate_frame(instance, payload, params, work, rest_s)
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

    async def _set_up(self, slot: VerifierSlot, instance: Instance, payload: TaskPayload) -> None:
        create_s = self._deadlines.create_s
        graded = replace(payload, task=_verifier(payload).task)
        await _request(slot.box, create_frame(instance, graded, create_s), create_s)
        slot.box.pool.set_up(slot.name)


def _verifier(payload: TaskPayload) -> VerifierBox:
    assert payload.verifier is not None
    return payload.verifier


def _evaluate_frame(
    instance: Instance, payload: TaskPayload, params: dict[str, JsonValue], work: bytes, limit_s: float
) -> Frame:
    # What the agent left may have many megabytes: it is not parsed here.
    rest = json.dumps({"params": params, "grading": payload.grading}).encode()
    body = b'{"work":' + work + b"," + rest[1:]
    return Frame(Op.EVALUATE, 0, instance.public_id, {"deadline_s": limit_s}, body)


async def _request(box: PooledBox, frame: Frame, limit_s: float) -> Frame:
    try:
        return reply_or_raise(await box.execute(frame, limit_s))
    except ServiceError as error:
        if error.code in _BOX_GONE:
            detail = f"the box of the verifier failed: {error.detail}"
            raise ServiceError(ErrorCode.SANDBOX_FAILED, detail) from error
        raise
