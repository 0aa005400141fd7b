"""Suites of many concurrent instances: the memory of one more, and whether all of them work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .context import percentiles
from .instances import (
    CODE_STEP,
    batch_body,
    create_body,
    create_many,
    each,
    first_task,
    instance_body,
    release_many,
    step_body,
)
from .load import LoadError, drive
from .machine import available_memory_mb
from .processes import memory_mb

if TYPE_CHECKING:
    from .context import Bench, Figures
    from .load import Load, LoadConnection


_PARTS = ("runner", "shim")


async def idle_memory(bench: Bench) -> Figures:
    """Measure the memory of an idle ``code`` instance after its create, and after a step in Python."""
    count = _instance_count(bench, bench.sizes.idle_instances)
    figures, _ = await _hold(bench, count)
    return {name: value for name, value in figures.items() if name == "instances" or name.startswith("mb_")}


async def code_crowd(bench: Bench) -> Figures:
    """Hold many ``code`` instances at once; each takes a step and is released."""
    figures, echo_ms = await _hold(bench, _instance_count(bench, bench.sizes.code_instances))
    return figures | {"yardstick_p50_ms": echo_ms}


def _instance_count(bench: Bench, count: int) -> int:
    return min(count, bench.sizes.docker_instances) if bench.kind == "docker" else count


async def _hold(bench: Bench, count: int) -> tuple[Figures, float]:
    target, connections = bench.service, min(bench.sizes.in_flight, count)
    task_id = await first_task(target, "code")
    echo_ms = await bench.echo_ms(connections)
    empty, free = _memory(), available_memory_mb()
    instances, creates = await create_many(target, connections, "code", task_id, count)
    bench.report(f"  {len(instances)} instances are live")
    created = _memory()

    async def step(connection: LoadConnection, instance_id: str) -> None:
        await connection.post("/v1/step", step_body(instance_id, 0, CODE_STEP))

    steps = await each(target, connections, instances, step)
    stepped, taken = _memory(), free - available_memory_mb()
    releases = await release_many(target, connections, instances)
    figures: Figures = {
        "instances": len(instances),
        "creates_per_s": creates.per_s,
        "create": percentiles(creates.latencies_ms["/v1/create_instance"], echo_ms),
        "step": percentiles(steps.latencies_ms["/v1/step"], echo_ms),
        "releases_per_s": releases.per_s,
        "mb_per_instance": _per_instance(empty, created, count),
        "mb_per_instance_after_step": _per_instance(empty, stepped, count),
        "available_memory_drop_mb_per_instance": taken / count,
        "mb_boxes_included_per_instance": None if created is None else created / count,
    }
    return figures, echo_ms


async def echo_crowd(bench: Bench) -> Figures:
    """Create, step and release thousands of instances without agent code in batches."""
    size, count = bench.sizes.batch, bench.sizes.echo_instances
    echo_ms = await bench.echo_ms()
    empty = _memory()
    creates = [create_body("echo", "echo-endless") for _ in range(count)]
    results, created = await _batched(bench, "create_instance", creates, size)
    instances = [str(result["instance_id"]) for result in results]
    full = _memory()
    _, stepped = await _batched(bench, "step", [step_body(name, 0) for name in instances], size)
    _, released = await _batched(bench, "release_instance", [instance_body(name) for name in instances], size)
    return {
        "instances": len(instances),
        "creates_per_s": count / created.wall_s,
        "steps_per_s": count / stepped.wall_s,
        "releases_per_s": count / released.wall_s,
        "batch_of_steps": percentiles(stepped.latencies_ms["/v1/batch"], echo_ms),
        "mb_per_instance": _per_instance(empty, full, count),
    }


async def _batched(
    bench: Bench, operation: str, requests: Sequence[bytes], size: int
) -> tuple[list[dict[str, object]], Load]:
    bodies = [batch_body(operation, requests[at : at + size]) for at in range(0, len(requests), size)]
    results: list[dict[str, object]] = []

    async def work(connection: LoadConnection) -> None:
        for body in bodies:
            for result in json.loads(await connection.post("/v1/batch", body))["results"]:
                if result["status"] >= 400:
                    raise LoadError(f"{operation} in a batch: {result}")
                results.append(result["body"])

    return results, await drive(bench.service, [work])


def _memory() -> float | None:
    parts = [memory_mb(part) for part in _PARTS]
    return None if None in parts else sum(part for part in parts if part is not None)


def _per_instance(before: float | None, after: float | None, count: int) -> float | None:
    return None if before is None or after is None else (after - before) / count
