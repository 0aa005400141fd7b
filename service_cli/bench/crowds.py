"""Suites about many instances at once: what one more costs, and whether all of them live."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .context import spread
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
    from .load import Lane, Load


_PARTS = ("runner", "shim")


async def idle_memory(bench: Bench) -> Figures:
    """Memory of one more idle ``code`` instance: once created, and after a step in its Python session."""
    count = _crowd(bench, bench.sizes.idle_instances)
    figures, _ = await _hold(bench, count)
    return {name: value for name, value in figures.items() if name == "instances" or name.startswith("mb_")}


async def code_crowd(bench: Bench) -> Figures:
    """As many ``code`` instances at once as the size says; each takes a step and is released."""
    figures, echo_ms = await _hold(bench, _crowd(bench, bench.sizes.code_instances))
    return figures | {"yardstick_p50_ms": echo_ms}


def _crowd(bench: Bench, count: int) -> int:
    return min(count, bench.sizes.docker_instances) if bench.kind == "docker" else count


async def _hold(bench: Bench, count: int) -> tuple[Figures, float]:
    target, lanes = bench.service, bench.sizes.in_flight
    task_id = await first_task(target, "code")
    echo_ms = await bench.echo_ms()
    empty, free = _memory(), available_memory_mb()
    instances, creates = await create_many(target, lanes, "code", task_id, count)
    bench.tell(f"  {len(instances)} instances are live")
    created = _memory()

    async def step(lane: Lane, instance_id: str) -> None:
        await lane.post("/v1/step", step_body(instance_id, 0, CODE_STEP))

    steps = await each(target, lanes, instances, step)
    stepped, taken = _memory(), free - available_memory_mb()
    releases = await release_many(target, lanes, instances)
    figures: Figures = {
        "instances": len(instances),
        "creates_per_s": creates.per_s,
        "create": spread(creates.latencies_ms["/v1/create_instance"], echo_ms),
        "step": spread(steps.latencies_ms["/v1/step"], echo_ms),
        "releases_per_s": releases.per_s,
        "mb_per_instance": _per_instance(empty, created, count),
        "mb_per_instance_after_step": _per_instance(empty, stepped, count),
        "available_memory_drop_mb_per_instance": taken / count,
        "mb_boxes_included_per_instance": None if created is None else created / count,
    }
    return figures, echo_ms


async def echo_crowd(bench: Bench) -> Figures:
    """Thousands of pure-data instances, made, stepped and released in batches."""
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
        "batch_of_steps": spread(stepped.latencies_ms["/v1/batch"], echo_ms),
        "mb_per_instance": _per_instance(empty, full, count),
    }


async def _batched(
    bench: Bench, operation: str, requests: Sequence[bytes], size: int
) -> tuple[list[dict[str, object]], Load]:
    bodies = [batch_body(operation, requests[at : at + size]) for at in range(0, len(requests), size)]
    results: list[dict[str, object]] = []

    async def lane(lane: Lane) -> None:
        for body in bodies:
            for result in json.loads(await lane.post("/v1/batch", body))["results"]:
                if result["status"] >= 400:
                    raise LoadError(f"{operation} in a batch: {result}")
                results.append(result["body"])

    return results, await drive(bench.service, [lane])


def _memory() -> float | None:
    parts = [memory_mb(part) for part in _PARTS]
    return None if None in parts else sum(part for part in parts if part is not None)


def _per_instance(before: float | None, after: float | None, count: int) -> float | None:
    return None if before is None or after is None else (after - before) / count
