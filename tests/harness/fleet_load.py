"""Players who play episodes of echo through a router, as clients do: each call has a key and is repeated."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.fleet.router import Router
from sandbox_service.wire.frames import Op

STEPS = 10
_ON_ITS_WAY_S = 0.05
"""The time after a kill in which answers arrive that were sent before it."""
REPEATED = (
    ErrorCode.OUTCOME_UNKNOWN,
    ErrorCode.SUPERVISOR_UNAVAILABLE,
    ErrorCode.DRAINING,
    ErrorCode.DEADLINE_EXCEEDED,
)
"""Errors after which a client repeats a call under its key."""


@dataclass
class FleetLoad:
    """Players, what became of their episodes, and when each call of an instance was answered."""

    router: Router
    name: str = "load"
    """First part of the keys of its creates, which no other load of the database may have."""
    pause_s: float = 0.0
    """Time between two steps: that in which a model would think."""
    finished: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    """Errors of episodes that ended otherwise, by instance."""
    answered: dict[str, list[float]] = field(default_factory=dict)
    """Times of answers by live instance."""
    stopping: bool = False

    async def call(
        self, op: Op, instance: str = "", body: Mapping[str, Any] | None = None, **meta: Any
    ) -> Any:
        """Return the answer, repeating the call under its key as often as a client may."""
        data = json.dumps({"instance_id": instance, **(body or {})} if instance else body or {}).encode()
        attempt = 0
        while True:
            attempt += 1
            try:
                reply = await self.router.call(
                    op,
                    tenant="t",
                    instance_id=instance,
                    meta={"request_id": "r", **meta},
                    body=data,
                    timeout_s=60,
                )
            except ServiceError as error:
                if error.code not in REPEATED or attempt == 20:
                    raise
                await asyncio.sleep(0.2)
            else:
                if instance in self.answered:
                    self.answered[instance].append(time.monotonic())
                return json.loads(reply.body)

    async def create(self, environment: str, task_id: str, key: str) -> str:
        body = {"environment": environment, "task_id": task_id}
        return str((await self.call(Op.CREATE, "", body, key=key))["instance_id"])

    async def play(self, player: int) -> None:
        """Play episodes until the load is to stop; the last one is played to its end."""
        for number in itertools.count():
            if self.stopping:
                return
            instance = await self.create("echo", "echo-10", f"{self.name}-{player}-{number}")
            self.answered[instance] = []
            try:
                await self._play_episode(instance, player)
                self.finished.append(instance)
            except ServiceError as error:
                self.lost[instance] = str(error)
            finally:
                del self.answered[instance]

    async def _play_episode(self, instance: str, player: int) -> None:
        for index in range(STEPS):
            said = f"player {player} says {index}"
            body = {"message": {"role": "assistant", "content": said}}
            result = await self.call(Op.STEP, instance, body, key=f"s{index}", step_index=index)
            assert result["observation"]["messages"][0]["content"] == said
            assert result["step_index"] == index
            await asyncio.sleep(self.pause_s)
        verdict = await self.call(Op.EVALUATE, instance, key="e")
        assert verdict["score"] == 1.0
        await self.call(Op.RELEASE, instance, key="r")

    def owned_by(self, supervisor: str) -> list[str]:
        """Live instances whose id names a supervisor."""
        return [instance for instance in self.answered if instance.startswith(f"{supervisor}.")]


def seconds_until_next(answers: Mapping[str, Sequence[float]], killed_at: float) -> dict[str, float | None]:
    """Time from a kill until the next answer of each instance; None where none came."""
    return {
        instance: next((at - killed_at for at in times if at > killed_at + _ON_ITS_WAY_S), None)
        for instance, times in answers.items()
    }
