"""Clients that play echo episodes and know to the step what the service owes them.

A client that counts sends ``step_index`` and a key, and sends a call again whose outcome it does not know. A
client that does not count sends neither, natively or by the compatible protocol, and gives an episode up at
the first error. Each compares what the world has heard with what was answered.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

__all__ = ["CallFailed", "Client", "Toll", "counted_load"]

_PATIENCE_S = 180.0
_CALL_S = 180.0
_PAUSE_S = 0.2
_THINKS_S = 0.01
_AGAIN = {
    "outcome_unknown",
    "supervisor_unavailable",
    "deadline_exceeded",
    "draining",
    "connection",
    "not_up",
}


class CallFailed(Exception):  # noqa: N818 - a fact of the experiment, not a defect of it
    """The service answered with an error."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


@dataclass
class Toll:
    """The losses of all clients together, and the errors that they got for them."""

    acknowledged: int = 0
    episodes: int = 0
    lost: int = 0
    """Steps that were answered and that the instance does not have."""
    told: Counter[str] = field(default_factory=Counter)
    """Episodes that ended with an error, by its code."""
    silent_gaps: int = 0
    """Episodes that were graded without a step that had been answered."""
    double_executions: int = 0
    """Episodes whose world heard more than was answered."""
    repeated: int = 0
    """Calls that were sent again under their key."""
    longest_s: float = 0.0
    """Longest time that a client waited for the outcome of a call, with its repetitions."""


class Client:
    """One client: plays episodes until it is stopped."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        toll: Toll,
        *,
        counts: bool,
        compatible: bool,
        thinks_s: float = _THINKS_S,
    ) -> None:
        self._http = http
        self._toll = toll
        self._counts = counts
        self._compatible = compatible
        self._thinks_s = thinks_s
        self._serial = itertools.count()
        self._name = f"{random.getrandbits(48):x}"

    async def play(self, stop: asyncio.Event, steps: int) -> None:
        """Play episodes of so many steps."""
        while not stop.is_set():
            instance = await self._create()
            answered = 0
            try:
                while answered < steps and not stop.is_set():
                    await asyncio.sleep(random.random() * self._thinks_s)
                    await self._step(instance, answered)
                    answered += 1
                    self._toll.acknowledged += 1
                self._compare(await self._heard(instance), answered)
            except CallFailed as error:
                self._toll.told[error.code] += 1
                self._toll.lost += max(0, answered - await self._steps_of(instance))
            self._toll.episodes += 1
            await self._release(instance)

    def _compare(self, heard: int, answered: int) -> None:
        self._toll.silent_gaps += heard < answered
        self._toll.lost += max(0, answered - heard)
        self._toll.double_executions += heard > answered

    async def _create(self) -> str:
        body = {"environment": "echo", "task_id": "echo-endless", "idempotency_key": self._key()}
        return str((await self._until_known("/v1/create_instance", body))["instance_id"])

    async def _step(self, instance: str, index: int) -> None:
        message = {"role": "assistant", "content": "x" * 200}
        if self._compatible:
            await self._post("/step", {"instance_id": instance, "messages": message})
        elif self._counts:
            counted = {"step_index": index, "idempotency_key": self._key()}
            await self._until_known("/v1/step", {"instance_id": instance, "message": message, **counted})
        else:
            await self._post("/v1/step", {"instance_id": instance, "message": message})

    async def _heard(self, instance: str) -> int:
        body: dict[str, Any] = {"instance_id": instance}
        if self._compatible:
            return int((await self._post("/evaluate", body))["data"]["steps"])
        if self._counts:
            body["idempotency_key"] = self._key()
            return int((await self._until_known("/v1/evaluate", body))["details"]["steps"])
        return int((await self._post("/v1/evaluate", body))["details"]["steps"])

    async def _steps_of(self, instance: str) -> int:
        """Steps that the instance has now, as its status says; none when it is gone."""
        try:
            return int((await self._until_known(f"/v1/instances/{instance}", None))["step_index"])
        except CallFailed:
            return 0

    async def _release(self, instance: str) -> None:
        try:
            await self._until_known("/v1/release_instance", {"instance_id": instance})
        except CallFailed as error:
            if error.code != "unknown_instance":
                raise

    async def _until_known(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """Send a call until its outcome is known."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            try:
                return await self._post(path, body)
            except CallFailed as error:
                if error.code not in _AGAIN or loop.time() > began + _PATIENCE_S:
                    raise
            finally:
                self._toll.longest_s = max(self._toll.longest_s, loop.time() - began)
            self._toll.repeated += 1
            await asyncio.sleep(_PAUSE_S)

    async def _post(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        try:
            answer = await self._http.request("POST" if body is not None else "GET", path, json=body)
        except httpx.TransportError as error:
            raise CallFailed("connection", type(error).__name__) from error
        if answer.status_code != 200:
            raise _failure_of(answer)
        known: dict[str, Any] = answer.json()
        return known

    def _key(self) -> str:
        return f"{self._name}-{next(self._serial)}"


@asynccontextmanager
async def counted_load(
    url: str, clients: int, steps: int, key: str = "", thinks_s: float = _THINKS_S
) -> AsyncIterator[Toll]:
    """Have clients that count play episodes while the block runs; play the last ones to their gradings.

    Before each step a client waits for ``thinks_s`` at most.
    """
    toll, stop = Toll(), asyncio.Event()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    http = httpx.AsyncClient(base_url=url, timeout=_CALL_S, headers=headers)
    async with http, asyncio.TaskGroup() as tasks:
        for _ in range(clients):
            client = Client(http, toll, counts=True, compatible=False, thinks_s=thinks_s)
            tasks.create_task(client.play(stop, steps))
        try:
            yield toll
        finally:
            stop.set()


def _failure_of(answer: httpx.Response) -> CallFailed:
    """The error of an answer; the compatible protocol has its code in a header or only its text."""
    try:
        body = answer.json()
    except ValueError:
        return CallFailed("not_up", answer.text[:100])
    detail = str(body.get("detail"))
    return CallFailed(str(body.get("code") or _code_of(answer.status_code, detail)), detail)


def _code_of(status: int, detail: str) -> str:
    return "instance_recovered" if "was recovered at step" in detail else f"compatible_{status}"
