"""Kill a supervisor again and again, and count what its clients lose and which errors they get for it.

    python -m tests.benchmarks.killed_supervisor --steps 5000 --kills 8 --output killed.json

Eight clients step echo instances through a whole service with process boxes; half of them send step_index,
the others do not, natively and by the compatible protocol. SIGKILL hits the supervisor at even distances
among the answered steps. Both modes of the store are tried. Prints JSON; the exit code is 1 when a client
went on in a wrong state without an error, when a step was executed twice, or when ``acknowledged`` lost an
answered step.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import httpx

from deploy.serve_app import run_service
from local_processes.ports import free_port
from sandbox_service.config import Durability, ServiceConfig
from tests.harness.counted_steps import Client, Toll
from tests.harness.part_processes import processes_of

_CLIENTS = 8
_EPISODE = 50
_BACK_S = 120.0


async def play(url: str, steps: int, kills: int) -> dict[str, object]:
    """Drive a running service; kill its supervisor on the way."""
    toll, stop = Toll(), asyncio.Event()
    async with httpx.AsyncClient(base_url=url, timeout=180) as http:
        clients = [
            Client(http, toll, counts=number % 2 == 0, compatible=number % 4 == 1)
            for number in range(_CLIENTS)
        ]
        playing = [asyncio.create_task(client.play(stop, _EPISODE)) for client in clients]
        killed = 0
        while toll.acknowledged < steps:
            await asyncio.sleep(0.02)
            for task in playing:
                if task.done():
                    task.result()
            if killed < kills and toll.acknowledged >= steps * (killed + 1) // (kills + 1):
                await _kill(http)
                killed += 1
        stop.set()
        await asyncio.gather(*playing)
    return {"kills": killed, **vars(toll), "told": dict(toll.told)}


async def _kill(http: httpx.AsyncClient) -> None:
    """Kill the supervisor and wait until another one serves."""
    (pid,) = processes_of("supervisor")
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _BACK_S
    while time.monotonic() < deadline:
        await asyncio.sleep(0.2)
        if pid not in processes_of("supervisor") and (await http.get("/readyz")).status_code == 200:
            return
    raise TimeoutError(f"no supervisor came back within {_BACK_S:g} s")


def measure(mode: Durability, steps: int, kills: int) -> dict[str, object]:
    """The figures of one mode, on a service of its own."""
    with tempfile.TemporaryDirectory(prefix="killed-") as folder:
        config = ServiceConfig.model_validate(
            {
                "server": {"port": free_port()},
                "sandbox": {"kind": "process", "state_dir": Path(folder) / "state"},
                "store": {"url": f"sqlite:///{folder}/trajectories.sqlite", "durability": mode.value},
                "pool": {"min_boxes": 1, "max_boxes": 2},
                "environments": {"enabled": ["echo"]},
            }
        )
        with run_service(config) as service:
            return asyncio.run(play(service.url, steps, kills))


def wrong(figures: dict[str, dict]) -> list[str]:
    """Everything that must not happen."""
    never = [
        f"{mode}: {name} {found[name]}"
        for mode, found in figures.items()
        for name in ("silent_gaps", "double_executions")
        if found[name]
    ]
    lost = figures.get(Durability.ACKNOWLEDGED.value, {}).get("lost")
    return [*never, *([f"acknowledged: lost {lost}"] if lost else [])]


def main() -> int:
    """Run the modes one after another."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=5000, help="answered steps in each mode")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--mode", choices=[mode.value for mode in Durability], action="append")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    modes = given.mode or [mode.value for mode in Durability]
    figures = {mode: measure(Durability(mode), given.steps, given.kills) for mode in modes}
    text = json.dumps(figures, indent=1) + "\n"
    if given.output:
        given.output.write_text(text)
    sys.stdout.write(text)
    problems = wrong(figures)
    sys.stderr.writelines(f"{problem}\n" for problem in problems)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
