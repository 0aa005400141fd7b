"""Bodies of operations, and instances created and released over several connections, for the suites."""

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
    from .load import Load, LoadConnection, Target


NOOP_STEP = "x"
CODE_STEP = "```python\nprint(6 * 7)\n```"
_ANSWER_S = 10.0
_run = secrets.token_hex(4)
_serial = itertools.count()


def step_body(instance_id: str, index: int, content: str = NOOP_STEP) -> bytes:
    """Return the body of a step with index and key, as clients send it."""
    message = {"role": "assistant", "content": content}
    body = {"instance_id": instance_id, "message": message, "step_index": index, "idempotency_key": _key()}
    return json.dumps(body).encode()


def message_body(instance_id: str, index: int, message: bytes) -> bytes:
    """Return the body of a step whose message is JSON already."""
    return b'{"instance_id":"%s","step_index":%d,"idempotency_key":"%s","message":%s}' % (
        instance_id.encode(),
        index,
        _key().encode(),
        message,
    )


def evaluate_body(instance_id: str) -> bytes:
    """Return the body of a sparse evaluation."""
    body = {"instance_id": instance_id, "params": {"sparse": True}, "idempotency_key": _key()}
    return json.dumps(body).encode()


def batch_body(operation: str, requests: Sequence[bytes]) -> bytes:
    """Return the body of a batch of one operation."""
    head = b'{"operation":"%s","request":' % operation.encode()
    return b'{"operations":[' + b",".join(head + request + b"}" for request in requests) + b"]}"


def create_body(environment: str, task_id: str, *, fresh: bool = False) -> bytes:
    """Return the body of a create."""
    body = {"environment": environment, "task_id": task_id, "fresh": fresh, "idempotency_key": _key()}
    return json.dumps(body).encode()


def instance_body(instance_id: str) -> bytes:
    """Return the body of a release or a fork."""
    return json.dumps({"instance_id": instance_id, "idempotency_key": _key()}).encode()


async def create(connection: LoadConnection, environment: str, task_id: str, *, fresh: bool = False) -> str:
    """Create an instance and return its id."""
    body = await connection.post("/v1/create_instance", create_body(environment, task_id, fresh=fresh))
    return str(json.loads(body)["instance_id"])


async def first_task(target: Target, environment: str) -> str:
    """Return the first task of an environment's default split."""
    found: list[str] = []

    async def ask(connection: LoadConnection) -> None:
        body = json.dumps({"environment": environment, "limit": 1}).encode()
        found.extend(json.loads(await connection.post("/v1/get_env_profile", body))["task_ids"])

    await drive(target, [ask])
    return found[0]


async def warmed(target: Target, environment: str, boxes: int, most_s: float = 300.0) -> None:
    """Wait until ``boxes`` boxes of an environment are idle. Raises LoadError after ``most_s``."""
    request = target.request("/v1/stats", b"", "GET")
    deadline = time.monotonic() + most_s

    async def ask(connection: LoadConnection) -> None:
        while time.monotonic() < deadline:
            stats = json.loads((await connection.connection.send(request)).body)
            pools = [pool for supervisor in stats["supervisors"] for pool in supervisor["pools"]]
            if sum(pool["idle"] for pool in pools if pool["environment"] == environment) >= boxes:
                return
            await asyncio.sleep(0.1)
        raise LoadError(f"{boxes} boxes of {environment} were not up within {most_s:g} s")

    # Longer than the wait itself, whose message says what is missing.
    await drive(target, [ask], most_s=most_s + _ANSWER_S)


async def settle(target: Target, environment: str, quiet_s: float = 2.0, most_s: float = 60.0) -> None:
    """Wait until HAProxy keeps its connections; it closes them when replicas change."""
    body = json.dumps({"environment": environment, "limit": 1}).encode()

    async def ask(connection: LoadConnection) -> None:
        until = time.monotonic() + quiet_s
        while time.monotonic() < until:
            await connection.post("/v1/get_env_profile", body)
            await asyncio.sleep(0.02)

    deadline = time.monotonic() + most_s
    while True:
        try:
            await drive(target, [ask])
        except LoadError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
        else:
            return


async def each(
    target: Target,
    connections: int,
    items: Sequence[str],
    act: Callable[[LoadConnection, str], Awaitable[None]],
) -> Load:
    """Call ``act`` for every item, on several connections."""
    waiting = iter(items)

    async def work(connection: LoadConnection) -> None:
        for item in waiting:
            await act(connection, item)

    return await drive(target, [work] * min(connections, len(items)))


async def create_many(
    target: Target, connections: int, environment: str, task_id: str, count: int
) -> tuple[list[str], Load]:
    """Create instances of one task; return their ids and the load."""
    made: list[str] = []

    async def one(connection: LoadConnection, _: str) -> None:
        made.append(await create(connection, environment, task_id))

    load = await each(target, connections, [task_id] * count, one)
    return made, load


async def release_many(target: Target, connections: int, instance_ids: Sequence[str]) -> Load:
    """Release instances."""

    async def one(connection: LoadConnection, instance_id: str) -> None:
        await connection.post("/v1/release_instance", instance_body(instance_id))

    return await each(target, connections, instance_ids, one)


def _key() -> str:
    return f"{_run}-{next(_serial)}"
