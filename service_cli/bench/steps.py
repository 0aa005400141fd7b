"""Suites of steps without work, which measure the service's own time."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from service_cli.policies.outcomes import percentile

from .context import cpu_by_part, medians, percentiles
from .instances import batch_body, create_many, release_many, step_body
from .load import LoadError, drive

if TYPE_CHECKING:
    from .context import Bench, Figures
    from .load import Load, LoadConnection


_TASK = ("echo", "echo-endless")


async def noop_steps(bench: Bench) -> Figures:
    """Measure steps of the echo environment, sequentially and at 32 in flight."""
    sequential: list[Figures] = []
    concurrent: list[Figures] = []
    cpu: list[Figures] = []
    sizes = bench.sizes
    for _ in range(sizes.rounds):
        echo_ms = await bench.echo_ms()
        load = await _steps(bench, 1, sizes.sequential)
        sequential.append(percentiles(load.latencies_ms["/v1/step"], echo_ms))
        echo = await bench.echo(sizes.in_flight, sizes.concurrent)
        load, used = await cpu_by_part(lambda: _steps(bench, sizes.in_flight, sizes.concurrent))
        figures = percentiles(load.latencies_ms["/v1/step"], percentile(echo.latencies_ms["/echo"], 0.5))
        figures |= {
            "requests_per_s": load.per_s,
            "yardstick_requests_per_s": echo.per_s,
            "ratio_requests_per_s": echo.per_s / load.per_s,
        }
        concurrent.append(figures)
        cpu.append(dict(used))
    common = set.intersection(*map(set, cpu))
    return {
        "sequential": medians(sequential),
        f"at_{sizes.in_flight}": medians(concurrent),
        "cpu_ms_per_request": medians([{part: figures[part] for part in sorted(common)} for figures in cpu]),
    }


async def batches(bench: Bench) -> Figures:
    """Measure batches of no-op steps, one call at a time, and as many single calls at 32 in flight."""
    rounds: list[Figures] = []
    sizes = bench.sizes
    for _ in range(sizes.rounds):
        echo_ms = await bench.echo_ms()
        single = await _steps(bench, sizes.in_flight, sizes.concurrent)
        load = await _batches(bench)
        steps_per_s = load.requests * sizes.batch / load.wall_s
        rounds.append(
            percentiles(load.latencies_ms["/v1/batch"], echo_ms)
            | {
                "steps_per_s": steps_per_s,
                "single_steps_per_s": single.per_s,
                "ratio_to_single": steps_per_s / single.per_s,
            }
        )
    return {"operations": sizes.batch, **medians(rounds)}


async def _steps(bench: Bench, connections: int, requests: int) -> Load:
    """Take ``requests`` steps, each connection on an instance of its own."""
    instances, _ = await create_many(bench.service, connections, *_TASK, connections)
    try:
        return await drive(
            bench.service, [_stepper(instance_id, requests // connections) for instance_id in instances]
        )
    finally:
        await release_many(bench.service, connections, instances)


def _stepper(instance_id: str, steps: int) -> Callable[[LoadConnection], Awaitable[None]]:
    bodies = [step_body(instance_id, index) for index in range(steps)]

    async def work(connection: LoadConnection) -> None:
        for body in bodies:
            await connection.post("/v1/step", body)

    return work


async def _batches(bench: Bench) -> Load:
    sizes = bench.sizes
    instances, _ = await create_many(bench.service, sizes.in_flight, *_TASK, sizes.batch)
    bodies = [
        batch_body("step", [step_body(instance_id, index) for instance_id in instances])
        for index in range(sizes.batches)
    ]

    async def work(connection: LoadConnection) -> None:
        for body in bodies:
            results = json.loads(await connection.post("/v1/batch", body))["results"]
            failed = [result for result in results if result["status"] >= 400]
            if failed:
                raise LoadError(f"{len(failed)} steps of a batch failed: {failed[0]}")

    try:
        return await drive(bench.service, [work])
    finally:
        await release_many(bench.service, sizes.in_flight, instances)
