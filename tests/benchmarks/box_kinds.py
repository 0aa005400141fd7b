"""Boxes of each kind: start, create, step, fork, reset, and memory while idle.

    python -m tests.benchmarks.box_kinds --kinds process docker gvisor

One box after another, each with one instance of the tests' probe world, straight at the box's runner: neither
HTTP nor supervisor are in the way. A step runs one line of Python in the agent's session, or one shell
command. Ratios are to process boxes of the same run, which share the machine's state. Memory is the sum of
the proportional set sizes of the box's processes, the engine's shim or gVisor's own included; in a container
those of all containers that the engine starts meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psutil

from sandbox_service.config import SandboxConfig
from sandbox_service.sandboxes.factory import open_factory
from sandbox_service.wire.frames import Op
from service_cli.bench.machine import describe_machine
from tests.harness.boxes import PROBE, Episode, missing_engine, missing_gvisor

if TYPE_CHECKING:
    from sandbox_service.sandboxes.base import Sandbox, SandboxFactory

_T = TypeVar("_T")
_STEPS = 50
_MIB = 1024 * 1024


def main() -> int:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--kinds", nargs="+", default=["process", "docker", "gvisor"])
    parser.add_argument("--boxes", type=int, default=10, help="boxes of each kind")
    options = parser.parse_args()
    for kind, missing in (("docker", missing_engine), ("gvisor", missing_gvisor)):
        if kind in options.kinds and (reason := missing()) is not None:
            parser.error(reason)
    medians = {kind: measure(kind, options.boxes) for kind in options.kinds}
    yardstick = medians.get("process", {})
    ratios = {
        kind: {name: round(value / yardstick[name], 2) for name, value in found.items() if name in yardstick}
        for kind, found in medians.items()
    }
    report = {
        "what": "medians; milliseconds, and MiB of memory",
        "boxes": options.boxes,
        "machine": describe_machine(),
        "medians": medians,
        "ratios to process boxes": ratios,
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


def measure(kind: str, boxes: int) -> dict[str, float]:
    """Return the medians of so many boxes of a kind, by name."""
    with tempfile.TemporaryDirectory(prefix="kinds-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # for the user ids of agents
        times = asyncio.run(_times(kind, boxes, folder))
    return {name: round(statistics.median(values), 3) for name, values in times.items()}


async def _times(kind: str, boxes: int, folder: Path) -> dict[str, list[float]]:
    times: dict[str, list[float]] = defaultdict(list)
    factory = await open_factory(SandboxConfig.model_validate({"kind": kind, "state_dir": folder}), "bench")
    try:
        for number in range(boxes + 1):
            found = await _live(factory)
            # The first box of a kind also lays out its code.
            for part, values in found.items() if number else ():
                times[part] += values
    finally:
        await factory.close()
    return times


async def _live(factory: SandboxFactory) -> dict[str, list[float]]:
    """Return the times of one box's life by name."""
    before = {process.pid for process in psutil.process_iter()}
    box, start = await _timed(factory.start(PROBE, lambda _: None, lambda _: None))
    try:
        found = await _episodes(box, before)
        reset = (await _timed(box.reset()))[1]
    finally:
        _, destroy = await _timed(box.destroy())
    return {"start": [start], **found, "reset": [reset], "destroy": [destroy]}


async def _episodes(box: Sandbox, before: set[int]) -> dict[str, list[float]]:
    one = Episode(box, "one")
    create = (await _timed(one.create()))[1]
    first = (await _timed(one.python("x = 1")))[1]
    python = [(await _timed(one.python("x += 1")))[1] for _ in range(_STEPS)]
    shell = [(await _timed(one.run(shell="true")))[1] for _ in range(_STEPS)]
    idle = memory_since(before)
    fork = (await _timed(one.send(Op.FORK, copy_id="two")))[1]
    two = Episode(box, "two", step_index=one.step_index)
    await two.release()
    release = (await _timed(one.release()))[1]
    return {
        "create": [create],
        "first step": [first],
        "Python step": python,
        "shell step": shell,
        "fork": [fork],
        "release": [release],
        "idle MiB": [idle],
    }


def memory_since(before: set[int]) -> float:
    """Return the MiB of the boxes' processes but those whose ids are given.

    They descend from this process, or from the shim of a container that an engine has started since.
    """
    every = [each for each in psutil.process_iter(["name"]) if each.pid not in before]
    shims = [each for each in every if (each.info["name"] or "").startswith("containerd-shim")]
    total = 0
    for process in every:
        with suppress(psutil.Error):  # it ended meanwhile
            above = [each.pid for each in (process, *process.parents())]
            if os.getpid() in above or any(shim.pid in above for shim in shims):
                total += process.memory_full_info().pss
    return total / _MIB


async def _timed(awaited: Awaitable[_T]) -> tuple[_T, float]:
    """Return a result, and the milliseconds that it took."""
    began = time.perf_counter()
    result = await awaited
    return result, (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    sys.exit(main())
