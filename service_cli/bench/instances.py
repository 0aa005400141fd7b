"""Bodies of the verbs, and instances made and ended by many lanes at once, for the suites."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from .load import LoadError, drive

if TYPE_CHECKING:
    from .load import Lane, Load, Target


NOOP_STEP = "x"
CODE_STEP = "```python\nprint(6 * 7)\n```"
_run = secrets.token_hex(4)
_serial = itertools.count()


def step_body(instance_id: str, index: int, content: str = NOOP_STEP) -> bytes:
    """A step with everything that a client sends: index and key."""
    message = {"role": "assistant", "content": content}
    body = {"instance_id": instance_id, "message": message, "step_index": index, "idempotency_key": _key()}
    return json.dumps(body).encode()


def message_body(instance_id: str, index: int, message: bytes) -> bytes:
    """A step with a message that is JSON already."""
    return b'{"instance_id":"%s","step_index":%d,"idempotency_key":"%s","message":%s}' % (
        instance_id.encode(),
        index,
        _key().encode(),
        message,
    )


def evaluate_body(instance_id: str) -> bytes:
    """An evaluation that asks for solved or not."""
    body = {"instance_id": instance_id, "params": {"sparse": True}, "idempotency_key": _key()}
    return json.dumps(body).encode()


def batch_body(operation: str, requests: Sequence[bytes]) -> bytes:
    """Many requests of one verb in one body."""
    head = b'{"operation":"%s","request":' % operation.encode()
    return b'{"operations":[' + b",".join(head + request + b"}" for request in requests) + b"]}"


def create_body(environment: str, task_id: str, *, fresh: bool = False) -> bytes:
    """A create."""
    body = {"environment": environment, "task_id": task_id, "fresh": fresh, "idempotency_key": _key()}
    return json.dumps(body).encode()


def instance_body(instance_id: str) -> bytes:
    """A release or a fork."""
    return json.dumps({"instance_id": instance_id, "idempotency_key": _key()}).encode()


async def create(lane: Lane, environment: str, task_id: str, *, fresh: bool = False) -> str:
    """A new instance's id."""
    body = await lane.post("/v1/create_instance", create_body(environment, task_id, fresh=fresh))
    return str(json.loads(body)["instance_id"])


async def first_task(target: Target, environment: str) -> str:
    """Id of the first task of an environment's default split."""
    found: list[str] = []

    async def ask(lane: Lane) -> None:
        body = json.dumps({"environment": environment, "limit": 1}).encode()
        found.extend(json.loads(await lane.post("/v1/get_env_profile", body))["task_ids"])

    await drive(target, [ask])
    return found[0]


async def warmed(target: Target, environment: str, boxes: int, most_s: float = 300.0) -> None:
    """Wait until so many boxes of an environment are up. Raises LoadError when they do not come."""
    request = target.request("/v1/stats", b"", "GET")
    deadline = time.monotonic() + most_s

    async def ask(lane: Lane) -> None:
        while time.monotonic() < deadline:
            stats = json.loads((await lane.connection.send(request)).body)
            pools = [pool for supervisor in stats["supervisors"] for pool in supervisor["pools"]]
            if sum(pool["idle"] for pool in pools if pool["environment"] == environment) >= boxes:
                return
            await asyncio.sleep(0.1)
        raise LoadError(f"{boxes} boxes of {environment} were not up within {most_s:g} s")

    await drive(target, [ask])


async def settle(target: Target, environment: str, quiet_s: float = 2.0, most_s: float = 60.0) -> None:
    """Wait until the front keeps its connections: HAProxy closes them when it is given new replicas."""
    body = json.dumps({"environment": environment, "limit": 1}).encode()

    async def ask(lane: Lane) -> None:
        until = time.monotonic() + quiet_s
        while time.monotonic() < until:
            await lane.post("/v1/get_env_profile", body)
            await asyncio.sleep(0.02)

    deadline = time.monotonic() + most_s
    while True:
        try:
            await drive(target, [ask])
        except LoadError:
            if time.monotonic() > deadline:
                raise
        else:
            return


async def each(
    target: Target, lanes: int, items: Sequence[str], act: Callable[[Lane, str], Awaitable[None]]
) -> Load:
    """Do something with every item, on so many connections."""
    waiting = iter(items)

    async def lane(lane: Lane) -> None:
        for item in waiting:
            await act(lane, item)

    return await drive(target, [lane] * min(lanes, len(items)))


async def create_many(
    target: Target, lanes: int, environment: str, task_id: str, count: int
) -> tuple[list[str], Load]:
    """Instances of one task, and the load of making them."""
    made: list[str] = []

    async def one(lane: Lane, _: str) -> None:
        made.append(await create(lane, environment, task_id))

    load = await each(target, lanes, [task_id] * count, one)
    return made, load


async def release_many(target: Target, lanes: int, instance_ids: Sequence[str]) -> Load:
    """End instances."""

    async def one(lane: Lane, instance_id: str) -> None:
        await lane.post("/v1/release_instance", instance_body(instance_id))

    return await each(target, lanes, instance_ids, one)


def _key() -> str:
    return f"{_run}-{next(_serial)}"
