"""Executions: an operation runs in a task of its own, once for each idempotency key.

Whoever asked may go away: the operation goes on, and its answer waits under its key. A second call with
the key joins the first, or gets the bytes that the first got.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_frame
from sandbox_service.telemetry import get_logger

from .idempotency import conflict, recorded_answer

if TYPE_CHECKING:
    from sandbox_service.trajectories.records import EventRecord
    from sandbox_service.wire.frames import Frame

    from .answers import KeyEntry
    from .idempotency import KeyMemory
    from .journal import Journal


_K = TypeVar("_K", bound="Hashable")

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OperationResult:
    """The outcome of an operation that was executed: what its key stands for from now on."""

    frame: Frame
    event: EventRecord | None = None
    """What is still to be written of it."""
    recorded: bool = True
    """Something of it was or is to be written, so the answer waits until that is safe."""


async def execute(
    memory: KeyMemory[_K],
    key: _K | None,
    frame: Frame,
    journal: Journal,
    work: Awaitable[OperationResult],
    final_result: Callable[[ServiceError], OperationResult | None] | None = None,
) -> Frame:
    """Run ``work`` and keep its answer under the key. Never raises, so that joined calls all get the same.

    ``final_result`` makes the outcome of an error that stays the answer to the key; after all other errors
    the key is free again.
    """
    result: OperationResult | None = None
    try:
        try:
            result = await work
        except ServiceError as error:
            result = None if final_result is None else final_result(error)
            if result is None:
                raise
        # In this order: an answer is sent when its record is safe, and not before.
        if result.event is not None:
            journal.write(result.event)
        if result.recorded:
            await journal.committed()
    except ServiceError as error:
        return error_frame(frame, error)
    except Exception as error:  # noqa: BLE001  # capture point: an operation's own failure is an answer
        return failure_frame(frame, error)
    finally:
        if key is not None:
            if result is None:
                memory.forget(key)
            else:
                memory.settle(frame.meta["tenant"], key, result.frame)
    return result.frame


def failure_frame(frame: Frame, error: Exception) -> Frame:
    """The answer to a request that our own fault failed; the fault goes to the log only."""
    logger.error("operation_failed", op=frame.op.name, instance_id=frame.instance_id, exc_info=error)
    return error_frame(frame, ServiceError(ErrorCode.INTERNAL))


async def repeat(
    memory: KeyMemory[_K],
    entry: KeyEntry,
    frame: Frame,
    request: bytes,
    digest: bytes,
    recorded: Callable[[], Awaitable[EventRecord | None]],
) -> Frame:
    """Answer a call whose key is known; ``digest`` is that of its request.

    Raises ServiceError(IDEMPOTENCY_CONFLICT) for another request.
    """
    if entry.digest != digest:
        event = await recorded()
        if event is None:
            raise conflict(frame)
        return recorded_answer(event, frame, request)
    running = entry.running
    answer = entry.answer if running is None else await asyncio.shield(running)
    if answer is not None:
        memory.asked_again(frame.meta["tenant"], entry)
        return replace(answer, request_id=frame.request_id)
    event = await recorded()
    if event is None:
        raise ServiceError(ErrorCode.OUTCOME_UNKNOWN, "the key's answer is not on record")
    return recorded_answer(event, frame, request)
