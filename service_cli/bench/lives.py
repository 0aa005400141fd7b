"""Suites of an instance's life cycle: create, fork, release."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from .context import medians, percentiles
from .instances import CODE_STEP, NOOP_STEP, create, first_task, instance_body, step_body
from .load import drive

if TYPE_CHECKING:
    from .context import Bench, Figures
    from .load import Load, LoadConnection


# A released box is cleaned in the background; the pool is warm when that has ended.
_SETTLE_S = 0.1
_ENVIRONMENTS = {"echo": NOOP_STEP, "code": CODE_STEP}


async def warm_creates(bench: Bench) -> Figures:
    """Measure create with a warm box, and release."""
    return {name: await _warm(bench, name) for name in _ENVIRONMENTS}


async def _warm(bench: Bench, environment: str) -> Figures:
    creates: list[Figures] = []
    releases: list[Figures] = []
    task_id = await first_task(bench.service, environment)

    async def work(connection: LoadConnection) -> None:
        for _ in range(bench.sizes.creates):
            instance_id = await create(connection, environment, task_id)
            await connection.post("/v1/release_instance", instance_body(instance_id))
            await asyncio.sleep(_SETTLE_S)

    for _ in range(bench.sizes.rounds):
        echo_ms = await bench.echo_ms()
        load = await drive(bench.service, [work])
        creates.append(percentiles(load.latencies_ms["/v1/create_instance"], echo_ms))
        releases.append(percentiles(load.latencies_ms["/v1/release_instance"], echo_ms))
    return {"create": medians(creates), "release": medians(releases)}


async def cold_creates(bench: Bench) -> Figures:
    """Measure create when a box must start first: the pool keeps none, and each create needs a fresh one."""
    return {name: await _cold(bench, name) for name in _ENVIRONMENTS}


async def _cold(bench: Bench, environment: str) -> Figures:
    task_id = await first_task(bench.service, environment)

    async def work(connection: LoadConnection) -> None:
        for _ in range(bench.sizes.cold_creates):
            instance_id = await create(connection, environment, task_id, fresh=True)
            await connection.post("/v1/release_instance", instance_body(instance_id))

    echo_ms = await bench.echo_ms()
    load = await drive(bench.service, [work])
    return {"create": percentiles(load.latencies_ms["/v1/create_instance"], echo_ms)}


async def forks(bench: Bench) -> Figures:
    """Measure the fork of an instance after a step; for ``code`` with a Python session and files."""
    figures: Figures = {}
    for environment, content in _ENVIRONMENTS.items():
        rounds: list[Figures] = []
        for _ in range(bench.sizes.rounds):
            echo_ms = await bench.echo_ms()
            load = await _forks(bench, environment, content)
            rounds.append(percentiles(load.latencies_ms["/v1/fork_instance"], echo_ms))
        figures[environment] = medians(rounds)
    return figures


async def _forks(bench: Bench, environment: str, content: str) -> Load:
    task_id = await first_task(bench.service, environment)
    if environment == "echo":
        task_id = "echo-endless"

    async def work(connection: LoadConnection) -> None:
        source = await create(connection, environment, task_id)
        await connection.post("/v1/step", step_body(source, 0, content))
        for _ in range(bench.sizes.creates):
            copies = json.loads(await connection.post("/v1/fork_instance", instance_body(source)))[
                "instance_ids"
            ]
            for copy in copies:
                await connection.post("/v1/release_instance", instance_body(copy))
        await connection.post("/v1/release_instance", instance_body(source))

    return await drive(bench.service, [work])
