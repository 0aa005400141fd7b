"""Sets up an instance's world in a box."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_of
from sandbox_service.wire.frames import Frame, Op

if TYPE_CHECKING:
    from sandbox_service.environments.base import TaskPayload

    from .clock import Clock
    from .instances import Instance
    from .pools import Pools


class InstanceSetup:
    """Waits for a slot in a box and has the runner set up the world in it."""

    def __init__(self, *, pools: Pools, clock: Clock, create_s: float) -> None:
        self._pools = pools
        self._clock = clock
        self._create_s = create_s

    async def set_up(self, instance: Instance, payload: TaskPayload, *, fresh: bool) -> tuple[Frame, float]:
        """Return the runner's reply and the milliseconds in the queue.

        A box that died while it was idle costs a second try, not a failure.
        """
        clock, pool = self._clock, self._pools.of(instance.spec.name)
        limit = self._create_s
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


def create_frame(instance: Instance, payload: TaskPayload, deadline_s: float) -> Frame:
    """Return the frame that sets an instance up in a box; each rebuild of the instance sends the same one."""
    meta: dict[str, Any] = {
        "deadline_s": deadline_s,
        "seed": instance.seed,
        "max_steps": payload.max_steps,
    }
    body = {
        "environment": instance.spec.name,
        "task_id": instance.task_id,
        "task": payload.task,
        "params": instance.params,
    }
    return Frame(Op.CREATE, 0, instance.public_id, meta, json.dumps(body, separators=(",", ":")).encode())


def _made(reply: Frame) -> Frame:
    """Return the reply to CREATE, or raise its error; what died during its setup is no lost instance."""
    if reply.op is Op.ERROR:
        error = error_of(reply)
        if error.code is ErrorCode.INSTANCE_LOST:
            raise ServiceError(ErrorCode.SANDBOX_FAILED, error.detail)
        raise error
    return reply
