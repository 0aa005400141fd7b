"""Concurrent steps of many coroutines, sent together as ``/v1/batch`` calls.

    batcher = StepBatcher(client)
    async with batcher.episode("bfcl", task_id) as episode: ...

A step waits for others at most the window, or until the batch is full; each caller gets its own result or its
own typed error. The service answers a batch when all of its steps have ended, so every caller waits for the
slowest step of its batch: use a batcher for steps that take about as long, such as those of one environment.
A step with a timeout of its own is sent on its own, once an earlier step of its instance that still waits
here is answered. Two steps on one instance never share a batch. A step that the service calls retryable is
sent again on its own, under the same key, by the client and its policy. So are the steps of a batch that is
refused as a request, such as one with too large a body.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sandbox_contract.batches import MAX_BATCH, StepOperation
from sandbox_contract.problems import FailureClass

from ._answers import step_outcome
from ._calls import step_request
from .episodes import AsyncEpisode
from .errors import AuthenticationError, Failure, InvalidResponse, RequestError, SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from sandbox_contract.episodes import StepRequest, StepResult

    from ._messages import Action
    from .async_client import AsyncSandboxClient

__all__ = ["StepBatcher"]


@dataclass(frozen=True, slots=True)
class _Waiting:
    request: StepRequest
    answer: asyncio.Future[StepResult]


class StepBatcher:
    """Collects steps for a moment and sends them together."""

    def __init__(self, client: AsyncSandboxClient, *, window_s: float = 0.002, max_size: int = 64) -> None:
        if not 1 <= max_size <= MAX_BATCH:
            raise ValueError(f"max_size must lie between 1 and {MAX_BATCH}")
        self._client = client
        self._window_s = window_s
        self._max_size = max_size
        self._waiting: dict[str, _Waiting] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<StepBatcher waiting={len(self._waiting)} sending={len(self._sending)}>"

    def episode(
        self,
        environment: str,
        task_id: str,
        *,
        seed: int | None = None,
        params: Mapping[str, JsonValue] | None = None,
        fresh: bool = False,
    ) -> AsyncEpisode:
        """Return an episode whose steps are sent in batches."""
        return AsyncEpisode(
            self._client, environment, task_id, seed=seed, params=params, fresh=fresh, stepper=self
        )

    async def step(
        self,
        instance_id: str,
        message: Action,
        *,
        step_index: int | None = None,
        timeout_s: float | None = None,
        idempotency_key: str | None = None,
    ) -> StepResult:
        """Send one assistant message, and return observation and reward; alone if it has a timeout."""
        earlier = self._waiting.get(instance_id)
        if earlier is not None:
            self._send()
        if timeout_s is not None:
            if earlier is not None:
                await asyncio.wait([earlier.answer])
            return await self._client.step(
                instance_id,
                message,
                step_index=step_index,
                timeout_s=timeout_s,
                idempotency_key=idempotency_key,
            )
        request = step_request(instance_id, message, step_index, None, idempotency_key)
        answer: asyncio.Future[StepResult] = asyncio.get_running_loop().create_future()
        self._waiting[instance_id] = _Waiting(request, answer)
        if len(self._waiting) >= self._max_size:
            self._send()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._window_s, self._send)
        return await answer

    def _send(self) -> None:
        """Send what waits; no await, so nobody slips in between."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # A caller who was cancelled while waiting has not acted.
        steps = [step for step in self._waiting.values() if not step.answer.done()]
        self._waiting.clear()
        if steps:
            task = asyncio.create_task(self._carry(steps))
            self._sending.add(task)
            task.add_done_callback(partial(self._carried, steps))

    def _carried(self, steps: Sequence[_Waiting], task: asyncio.Task[None]) -> None:
        """Nobody is left waiting, whatever stopped the task."""
        self._sending.discard(task)
        error = None if task.cancelled() else task.exception()
        for step in steps:
            if step.answer.done():
                continue
            if error is None:
                step.answer.cancel()
            else:
                step.answer.set_exception(error)

    async def _carry(self, steps: Sequence[_Waiting]) -> None:
        operations = [StepOperation(operation="step", request=step.request) for step in steps]
        try:
            results = (await self._client.batch(operations)).results
        except SandboxError as error:
            if len(steps) > 1 and _may_pass_alone(error):
                await asyncio.gather(*(self._alone(step) for step in steps))
                return
            for step in steps:
                _fail(step, type(error)(error.failure))
            return
        again: list[_Waiting] = []
        for step, result in zip(steps, results, strict=False):
            outcome = step_outcome(result)
            if not isinstance(outcome, SandboxError):
                if not step.answer.done():
                    step.answer.set_result(outcome)
            elif outcome.retryable:
                again.append(step)
            else:
                _fail(step, outcome)
        for step in steps[len(results) :]:
            detail = f"a batch of {len(steps)} steps had {len(results)} results"
            _fail(step, InvalidResponse(Failure(detail, "invalid_response", FailureClass.SANDBOX)))
        await asyncio.gather(*(self._alone(step) for step in again))

    async def _alone(self, step: _Waiting) -> None:
        request = step.request
        try:
            result = await self._client.step(
                request.instance_id,
                request.message,
                step_index=request.step_index,
                timeout_s=request.timeout_s,
                idempotency_key=request.idempotency_key,
            )
        except SandboxError as error:
            _fail(step, error)
        else:
            if not step.answer.done():
                step.answer.set_result(result)


def _may_pass_alone(error: SandboxError) -> bool:
    """Return whether a step may be right though its batch was refused: a limit holds for the whole body."""
    return isinstance(error, RequestError) and not isinstance(error, AuthenticationError)


def _fail(step: _Waiting, error: SandboxError) -> None:
    if not step.answer.done():
        step.answer.set_exception(error)
