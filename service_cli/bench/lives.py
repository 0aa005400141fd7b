"""Suites about the life of an instance: create, fork, release."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from .context import beside, spread
from .instances import CODE_STEP, NOOP_STEP, create, first_task, instance_body, step_body
from .load import drive

if TYPE_CHECKING:
    from .context import Bench, Figures
    from .load import Lane, Load


# A released box is cleaned off the caller's way; a warm pool is one in which that is over.
_SETTLE_S = 0.1
_ENVIRONMENTS = {"echo": NOOP_STEP, "code": CODE_STEP}


async def warm_creates(bench: Bench) -> Figures:
    """Create with a warm box waiting, then release, one after another."""
    return {name: await _warm(bench, name) for name in _ENVIRONMENTS}


async def _warm(bench: Bench, environment: str) -> Figures:
    creates: list[Figures] = []
    releases: list[Figures] = []
    task_id = await first_task(bench.service, environment)

    async def lane(lane: Lane) -> None:
        for _ in range(bench.sizes.creates):
            instance_id = await create(lane, environment, task_id)
            await lane.post("/v1/release_instance", instance_body(instance_id))
            await asyncio.sleep(_SETTLE_S)

    for _ in range(bench.sizes.rounds):
        echo_ms = await bench.echo_ms()
        load = await drive(bench.service, [lane])
        creates.append(spread(load.latencies_ms["/v1/create_instance"], echo_ms))
        releases.append(spread(load.latencies_ms["/v1/release_instance"], echo_ms))
    return {"create": beside(creates), "release": beside(releases)}


async def cold_creates(bench: Bench) -> Figures:
    """Create when a box must be started first: the pool keeps none, and each create wants a fresh one."""
    return {name: await _cold(bench, name) for name in _ENVIRONMENTS}


async def _cold(bench: Bench, environment: str) -> Figures:
    task_id = await first_task(bench.service, environment)

    async def lane(lane: Lane) -> None:
        for _ in range(bench.sizes.cold_creates):
            instance_id = await create(lane, environment, task_id, fresh=True)
            await lane.post("/v1/release_instance", instance_body(instance_id))

    echo_ms = await bench.echo_ms()
    load = await drive(bench.service, [lane])
    return {"create": spread(load.latencies_ms["/v1/create_instance"], echo_ms)}


async def forks(bench: Bench) -> Figures:
    """Copy a live instance that has taken a step: for ``code`` that includes a Python session and files."""
    figures: Figures = {}
    for environment, content in _ENVIRONMENTS.items():
        rounds: list[Figures] = []
        for _ in range(bench.sizes.rounds):
            echo_ms = await bench.echo_ms()
            load = await _forks(bench, environment, content)
            rounds.append(spread(load.latencies_ms["/v1/fork_instance"], echo_ms))
        figures[environment] = beside(rounds)
    return figures


async def _forks(bench: Bench, environment: str, content: str) -> Load:
    task_id = await first_task(bench.service, environment)
    if environment == "echo":
        task_id = "echo-endless"

    async def lane(lane: Lane) -> None:
        source = await create(lane, environment, task_id)
        await lane.post("/v1/step", step_body(source, 0, content))
        for _ in range(bench.sizes.creates):
            copies = json.loads(await lane.post("/v1/fork_instance", instance_body(source)))["instance_ids"]
            for copy in copies:
                await lane.post("/v1/release_instance", instance_body(copy))
        await lane.post("/v1/release_instance", instance_body(source))

    return await drive(bench.service, [lane])
