"""Grades instances in boxes of verifiers: of another image than the instance's, and for one grading each.

What the agent left comes from the instance's box, by ``hand_over`` of its world. A failure of the verifier's
box costs the instance nothing: its grading may be asked for again.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_of
from sandbox_service.trajectories.records import record_id
from sandbox_service.wire.frames import Frame, Op

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.config import DeadlineConfig
    from sandbox_service.environments.base import TaskPayload, VerifierBox

    from .background import BackgroundTasks
    from .box_pool import BoxPool
    from .instances import Instance
    from .pooled_box import PooledBox
    from .pools import Pools


HAND_OVER = b'{"hand_over":true}'
"""Body of the evaluation that asks an instance's box for what the agent left."""
_BOX_GONE = (
    ErrorCode.OUTCOME_UNKNOWN,
    ErrorCode.STEP_TIMEOUT,
    ErrorCode.INSTANCE_LOST,
    ErrorCode.UNKNOWN_INSTANCE,
)
"""Errors of a verifier's box that are none of the instance."""


class VerifierBoxes:
    """Takes a box for each grading, and gives it back."""

    def __init__(self, *, pools: Pools, deadlines: DeadlineConfig, tasks: BackgroundTasks) -> None:
        self._pools = pools
        self._deadlines = deadlines
        self._tasks = tasks

    async def prepare(self, instance: Instance, verifier: VerifierBox) -> None:
        """Have the first box of an image started, so that a task whose verifier has none is refused early.

        Raises ServiceError as ``BoxPool.acquire`` does.
        """
        pool = self._pool(instance, verifier)
        if pool.state.started_total == 0:
            seat = _seat(instance)
            box = await pool.acquire(instance.tenant, seat)
            box.leave(seat, clean=True)

    async def grade_instance(
        self,
        instance: Instance,
        payload: TaskPayload,
        params: dict[str, JsonValue],
        handed_over: bytes,
        limit_s: float,
    ) -> Frame:
        """Return the answer of a verifier's box, which has ``limit_s`` seconds for the grading.

        Raises ServiceError: as ``BoxPool.acquire``, GRADER_FAILED, DEADLINE_EXCEEDED, SANDBOX_FAILED.
        """
        assert payload.verifier is not None
        seat = _seat(instance)
        box = await self._pool(instance, payload.verifier).acquire(instance.tenant, seat)
        try:
            create_s = self._deadlines.create_s
            await _request(box, _create_frame(instance, payload, create_s), create_s)
            box.pool.set_up(seat)
            # What was handed over may have many megabytes: it is not parsed here.
            rest = json.dumps({"params": params, "grading": payload.grading}).encode()
            body = b'{"handed_over":' + handed_over + b"," + rest[1:]
            frame = Frame(Op.EVALUATE, 0, instance.public_id, {"deadline_s": limit_s}, body)
            return await _request(box, frame, limit_s)
        finally:
            self._tasks.spawn(box.clear(seat, self._deadlines.release_s))

    def _pool(self, instance: Instance, verifier: VerifierBox) -> BoxPool:
        return self._pools.of_verifier(instance.spec.name, verifier.image)


def _seat(instance: Instance) -> str:
    """Return the id of a grading in its pool. The box knows it by the instance's id, which its answer has."""
    return record_id(f"verifier.{secrets.token_hex(16)}", instance.public_id)


def _create_frame(instance: Instance, payload: TaskPayload, deadline_s: float) -> Frame:
    assert payload.verifier is not None
    meta = {"deadline_s": deadline_s, "seed": instance.seed, "max_steps": payload.max_steps}
    body = {
        "environment": instance.spec.name,
        "task_id": instance.task_id,
        "task": payload.verifier.task,
        "params": {},
    }
    return Frame(Op.CREATE, 0, instance.public_id, meta, json.dumps(body, separators=(",", ":")).encode())


async def _request(box: PooledBox, frame: Frame, limit_s: float) -> Frame:
    try:
        reply = await box.execute(frame, limit_s)
        if reply.op is not Op.ERROR:
            return reply
        raise error_of(reply)
    except ServiceError as error:
        if error.code in _BOX_GONE:
            detail = f"the box of the verifier failed: {error.detail}"
            raise ServiceError(ErrorCode.SANDBOX_FAILED, detail) from error
        raise
