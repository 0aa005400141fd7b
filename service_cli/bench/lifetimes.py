"""Measure one more instance of an environment: time of create and fork, and memory while idle."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .context import percentiles
from .episodes import CREATE, RELEASE, STEP, open_episode
from .instances import each, instance_body, message_body, release_many
from .load import drive
from .processes import memory_mb

if TYPE_CHECKING:
    from .context import Bench, Figures
    from .load import LoadConnection
    from .scripts import Scripts


_FORK = "/v1/fork_instance"
_PARTS = ("runner", "shim")
# A released box is cleaned in the background.
_SETTLE_S = 0.05
_LANES = 8


async def one_by_one(bench: Bench, scripts: Scripts, *, cleaned: bool) -> Figures:
    """Measure create with a warm box, and release; ``cleaned`` waits for the cleanup after each."""
    until = time.monotonic() + bench.sizes.level_s

    async def work(connection: LoadConnection) -> None:
        for script in scripts.first(bench.sizes.creates):
            instance_id = await open_episode(connection, scripts.environment, script)
            await connection.post(RELEASE, instance_body(instance_id))
            if cleaned:
                await asyncio.sleep(_SETTLE_S)
            if time.monotonic() > until:
                return

    echo_ms = await bench.echo_ms()
    load = await drive(bench.service, [work])
    return {
        "create": percentiles(load.latencies_ms[CREATE], echo_ms),
        "release": percentiles(load.latencies_ms[RELEASE], echo_ms),
    }


async def copies(bench: Bench, scripts: Scripts) -> Figures:
    """Measure the fork of an instance after the first step of its reference."""
    until = time.monotonic() + bench.sizes.level_s

    async def work(connection: LoadConnection) -> None:
        script = scripts.longest
        source = await open_episode(connection, scripts.environment, script)
        await connection.post(STEP, message_body(source, 0, script.messages[0]))
        for _ in range(bench.sizes.creates):
            made = json.loads(await connection.post(_FORK, instance_body(source)))["instance_ids"]
            for copy in made:
                await connection.post(RELEASE, instance_body(copy))
            if time.monotonic() > until:
                break
        await connection.post(RELEASE, instance_body(source))

    echo_ms = await bench.echo_ms()
    load = await drive(bench.service, [work])
    return percentiles(load.latencies_ms[_FORK], echo_ms)


async def memory(bench: Bench, scripts: Scripts, most: int) -> Figures:
    """Measure the memory of an instance after create, and after the first step of its reference."""
    empty, yardstick = _boxes_mb(), memory_mb("yardstick")
    first_of = await _crowd(bench, scripts, most)
    created = _boxes_mb()

    async def step(connection: LoadConnection, instance_id: str) -> None:
        await connection.post(STEP, message_body(instance_id, 0, first_of[instance_id]))

    await each(bench.service, _LANES, list(first_of), step)
    stepped = _boxes_mb()
    await release_many(bench.service, _LANES, list(first_of))
    return memory_figures(len(first_of), empty, created, stepped, yardstick)


def memory_figures(
    count: int,
    empty: float | None,
    created: float | None,
    stepped: float | None,
    yardstick: float | None,
) -> Figures:
    """Return the memory per instance, None where the kernel does not show it."""
    figures: Figures = {"instances": count}
    if empty is None or created is None or stepped is None or yardstick is None:
        return figures | {"mb_per_instance": None, "mb_per_instance_after_step": None}
    after_step = (stepped - empty) / count
    return figures | {
        "mb_boxes_empty": empty,
        "mb_per_instance": (created - empty) / count,
        "mb_per_instance_after_step": after_step,
        "yardstick_mb": yardstick,
        "ratio_after_step": after_step / yardstick,
    }


async def _crowd(bench: Bench, scripts: Scripts, most: int) -> Mapping[str, bytes]:
    """Create instances of all tasks in turn until the deadline; return each with its first message."""
    made: dict[str, bytes] = {}
    until = time.monotonic() + bench.sizes.level_s

    async def one(connection: LoadConnection, index: str) -> None:
        if time.monotonic() < until:
            script = scripts.each[int(index) % len(scripts.each)]
            made[await open_episode(connection, scripts.environment, script)] = script.messages[0]

    await each(bench.service, _LANES, [str(index) for index in range(most)], one)
    return made


def _boxes_mb() -> float | None:
    parts = [memory_mb(part) for part in _PARTS]
    return None if None in parts else sum(part for part in parts if part is not None)
