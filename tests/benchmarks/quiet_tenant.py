"""A quiet tenant's steps and creates beside a greedy tenant: large requests, many clients, fresh boxes.

    python -m tests.benchmarks.quiet_tenant --output quiet.json

Starts a service with two tenants and process boxes. The quiet tenant takes one step after another, from a
process of its own, alone and beside each of the greedy tenant's doings, whose requests come one at a time
with a pause (``--pause 0`` for none), but for the flood and the four readers. ``--quota requests_at_once=2``
and the like change settings of the group ``quota``. Prints JSON: percentiles of the
quiet tenant's steps, and their ratio to those alone. Run it on a quiet machine.
"""

import argparse
import asyncio
import json
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from deploy.preparation import prepare_sandboxes
from deploy.serve_app import run_service
from local_processes.ports import free_port
from sandbox_service.config import ServiceConfig
from service_cli.bench.context import rounded
from service_cli.bench.instances import create_body, instance_body, settle, step_body
from service_cli.bench.load import LoadConnection, Target, drive
from service_cli.bench.machine import describe_machine
from service_cli.policies.outcomes import percentile

MIB = 1024 * 1024
BOXES = 4
HISTORY_STEPS = 12
LISTED = 1000
PAUSE_S = 0.002
"""Between two steps of the quiet tenant."""


@dataclass(slots=True)
class Greedy:
    """The greedy tenant: what it sends, and how it was answered."""

    target: Target
    clients: int
    body_bytes: int
    pause_s: float = 0.0
    instance: str = ""
    answers: Counter[int] = field(default_factory=Counter)

    async def send(self, path: str, body: bytes, method: str = "POST") -> bytes:
        """One request on a connection of its own."""
        reader, writer = await asyncio.open_connection(self.target.host, self.target.port, limit=MIB)
        try:
            with suppress(ConnectionError):  # a refusal may come before the body is sent
                writer.write(self.target.request(path, body, method))
                await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            self.answers[int(head[9:12])] += 1
            return await reader.readexactly(length)
        finally:
            writer.close()

    async def create(self, task_id: str = "echo-endless") -> str:
        """An instance's id."""
        return str(
            json.loads(await self.send("/v1/create_instance", create_body("echo", task_id)))["instance_id"]
        )

    async def repeat(self, path: str, body: bytes, stop: asyncio.Event) -> None:
        """The same request, one after another."""
        while not stop.is_set():
            await self.send(path, body)
            await asyncio.sleep(self.pause_s)

    async def read_history(self, instance: str, stop: asyncio.Event) -> None:
        """A whole trajectory, page by page, again and again."""
        cursor = ""
        while not stop.is_set():
            query = f"?cursor={cursor}" if cursor else ""
            page = await self.send(f"/v1/instances/{instance}/trajectory{query}", b"", "GET")
            # Not parsed: that would be work of the measuring process, beside which nothing is quiet.
            tail = page[-64:]
            found = re.search(rb'"next_cursor":"([0-9]+)"', tail)
            cursor = found[1].decode() if found else ""
            await asyncio.sleep(self.pause_s)

    async def step_on(self, stop: asyncio.Event) -> None:
        """One of many clients that step as fast as they can."""

        async def lane(lane: LoadConnection) -> None:
            instance = json.loads(await lane.post("/v1/create_instance", create_body("echo", "echo-endless")))
            for index in range(10_000_000):
                if stop.is_set():
                    return
                await lane.post("/v1/step", step_body(instance["instance_id"], index))

        load = await drive(self.target, [lane] * self.clients)
        self.answers[200] += load.requests


Doing = Callable[[Greedy, asyncio.Event], Coroutine[Any, Any, None]]


def large(path: str, body: Callable[[Greedy], bytes]) -> Doing:
    """One large request after another."""

    async def doing(greedy: Greedy, stop: asyncio.Event) -> None:
        await greedy.repeat(path, body(greedy), stop)

    return doing


def filled(greedy: Greedy, before: str, unit: str, after: str) -> bytes:
    """A body of as many units as there is room for."""
    room = greedy.body_bytes - len(before) - len(after)
    return (before + unit * (room // len(unit)) + after).encode()


def step_of(greedy: Greedy, unit: str, content: str = "content") -> bytes:
    """A step with a very long member of its message."""
    before = f'{{"instance_id":"{greedy.instance}","message":{{"role":"assistant","{content}":'
    left, right = ('"', '"') if content == "content" else ("[", "1]")
    return filled(greedy, before + left, unit, right + "}}")


def create_of(greedy: Greedy, unit: str) -> bytes:
    """A create with very many parameters."""
    return filled(greedy, '{"environment":"echo","task_id":"echo-10","params":{"a":[', unit, "1]}}")


def compat_of(greedy: Greedy) -> bytes:
    """A step by the compatible routes with a very long text."""
    before = f'{{"instance_id":"{greedy.instance}","messages":{{"role":"assistant","content":"'
    return filled(greedy, before, "hello world, ", '"}}')


async def one_history(greedy: Greedy, stop: asyncio.Event) -> None:
    await greedy.read_history(await history(greedy), stop)


async def four_histories(greedy: Greedy, stop: asyncio.Event) -> None:
    instance = await history(greedy)
    await asyncio.gather(*(greedy.read_history(instance, stop) for _ in range(4)))


async def history(greedy: Greedy) -> str:
    """An instance that has taken steps of 7 MiB."""
    instance = await greedy.create()
    for index in range(HISTORY_STEPS):
        await greedy.send("/v1/step", step_body(instance, index, "x" * (7 * greedy.body_bytes // 8)))
    return instance


async def listings(greedy: Greedy, stop: asyncio.Event) -> None:
    for _ in range(LISTED):
        await greedy.create()
    while not stop.is_set():
        await greedy.send("/v1/instances", b"", "GET")
        await asyncio.sleep(greedy.pause_s)


async def flood(greedy: Greedy, stop: asyncio.Event) -> None:
    await greedy.step_on(stop)


DOINGS: dict[str, Doing] = {
    "schema_errors": large("/v1/step", lambda greedy: step_of(greedy, "1,", "tool_calls")),
    "tool_calls": large(
        "/v1/step", lambda greedy: step_of(greedy, '{"function":{"name":"f"}},', "tool_calls")
    ),
    "small_lists": large("/v1/create_instance", lambda greedy: create_of(greedy, "[],")),
    "long_text": large("/v1/step", lambda greedy: step_of(greedy, "hello world, ")),
    "escaped_text": large("/v1/step", lambda greedy: step_of(greedy, '\\"\\\\\\n')),
    "compat_text": large("/step", compat_of),
    "one_history": one_history,
    "four_histories": four_histories,
    "listings": listings,
    "flood": flood,
}


async def measured(doing: Doing, greedy: Greedy, quiet: Target, seconds: float) -> dict[str, object]:
    """The quiet tenant's figures beside what the greedy one does."""
    greedy.answers.clear()
    greedy.instance = await greedy.create()
    stop = asyncio.Event()
    task = asyncio.create_task(doing(greedy, stop))
    await asyncio.wait({task}, timeout=seconds / 4)
    figures = await alone(quiet, seconds)
    stop.set()
    await task
    return {**figures, "greedy_answers": dict(sorted(greedy.answers.items()))}


async def alone(quiet: Target, seconds: float) -> dict[str, object]:
    """The quiet tenant's figures, from a process of its own."""
    words = [
        sys.executable,
        "-m",
        "tests.benchmarks.quiet_tenant",
        "--quiet",
        str(quiet.port),
        str(quiet.api_key),
    ]
    process = await asyncio.create_subprocess_exec(*words, str(seconds), stdout=subprocess.PIPE)
    assert process.stdout is not None
    latencies = json.loads(await process.stdout.read())
    await process.wait()
    return {
        "steps": len(latencies),
        "p50_ms": percentile(latencies, 0.5),
        "p99_ms": percentile(latencies, 0.99),
        "most_ms": max(latencies),
    }


async def step_quietly(port: int, key: str, seconds: float) -> list[float]:
    """Milliseconds of steps one after another, with a pause between two."""

    async def lane(lane: LoadConnection) -> None:
        created = await lane.post("/v1/create_instance", create_body("echo", "echo-endless"))
        instance, end = json.loads(created)["instance_id"], time.monotonic() + seconds
        index = 0
        while time.monotonic() < end:
            await lane.post("/v1/step", step_body(instance, index))
            index += 1
            await asyncio.sleep(PAUSE_S)

    return (await drive(Target("127.0.0.1", port, key), [lane])).latencies_ms["/v1/step"]


async def greedy_creates(greedy: Greedy, quiet: Target) -> dict[str, object]:
    """Creates of fresh boxes, twice as many as there are, never released; then the quiet tenant's create."""

    async def create(target: Target, *, release: bool = False) -> tuple[float, int]:
        one = Greedy(target, 0, 0)
        body = create_body("code", await first_code_task(one), fresh=True)
        started = time.perf_counter()
        made = await one.send("/v1/create_instance", body)
        elapsed_ms, status = (time.perf_counter() - started) * 1e3, next(iter(one.answers))
        if release:
            await one.send("/v1/release_instance", instance_body(json.loads(made)["instance_id"]))
        return elapsed_ms, status

    before, _ = await create(quiet, release=True)
    tasks = [asyncio.create_task(create(greedy.target)) for _ in range(2 * BOXES)]
    await asyncio.sleep(5)
    beside, status = await create(quiet)
    answers = Counter(status for _, status in await asyncio.gather(*tasks))
    return {
        "alone_ms": before,
        "beside_ms": beside,
        "ratio": beside / before,
        "status": status,
        "greedy_answers": dict(sorted(answers.items())),
    }


async def first_code_task(one: Greedy) -> str:
    profile = json.loads(await one.send("/v1/get_env_profile", b'{"environment":"code","limit":1}'))
    one.answers.clear()
    return str(profile["task_ids"][0])


async def report(greedy: Greedy, quiet: Target, names: list[str], seconds: float) -> dict[str, object]:
    await settle(quiet, "echo")
    figures: dict[str, object] = {"machine": describe_machine(), "seconds": seconds}
    before = await alone(quiet, seconds)
    figures["alone_before"] = before
    for name in names:
        if name == "greedy_creates":
            figures[name] = await greedy_creates(greedy, quiet)
            continue
        beside = await measured(DOINGS[name], greedy, quiet, seconds)
        for part in ("p50", "p99"):
            beside[f"ratio_{part}"] = beside[f"{part}_ms"] / before[f"{part}_ms"]  # type: ignore[operator]
        figures[name] = beside
        sys.stderr.write(f"{name} {json.dumps(rounded(beside))}\n")
    figures["alone_after"] = await alone(quiet, seconds)
    return figures


@contextmanager
def two_tenants(quota: dict[str, float]) -> Iterator[tuple[Target, Target]]:
    """A service with a greedy and a quiet tenant."""
    keys = {name: secrets.token_hex(16) for name in ("greedy", "quiet")}
    with tempfile.TemporaryDirectory(prefix="quiet-tenant-") as folder:
        tree = {
            "server": {
                "port": free_port(),
                "api_keys": {sha256(key.encode()).hexdigest(): name for name, key in keys.items()},
            },
            "sandbox": {"kind": "process"},
            "pools": {"code": {"max_boxes": BOXES, "queue_timeout_s": 20}, "echo": {"max_boxes": BOXES}},
            "store": {"url": f"sqlite:///{Path(folder) / 'trajectories.sqlite'}"},
            "environments": {"enabled": ["code", "echo"]},
            "quota": quota,
        }
        config = prepare_sandboxes(ServiceConfig.model_validate(tree), lambda line: None)
        with run_service(config) as service:
            yield Target.of(service.url, keys["greedy"]), Target.of(service.url, keys["quiet"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*DOINGS, "greedy_creates"]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all when missing: {', '.join(names)}")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    parser.add_argument("--clients", type=int, default=300, help="of the flood")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between large requests")
    parser.add_argument("--body-mib", type=float, default=7.99, help="size of the large requests")
    parser.add_argument(
        "--quota", nargs="*", default=[], metavar="NAME=NUMBER", help="settings, such as busy_share=0.5"
    )
    parser.add_argument("--output", type=Path)
    parser.add_argument("--quiet", nargs=3, metavar=("PORT", "KEY", "SECONDS"), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.quiet:
        port, key, seconds = words.quiet
        sys.stdout.write(json.dumps(asyncio.run(step_quietly(int(port), key, float(seconds)))))
        return
    quota = [setting.split("=", 1) for setting in words.quota]
    if unknown := set(words.names) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    with two_tenants({name: json.loads(number) for name, number in quota}) as (greedy, quiet):
        one = Greedy(greedy, words.clients, int(words.body_mib * MIB), words.pause)
        figures = asyncio.run(report(one, quiet, words.names or names, words.seconds))
    text = json.dumps({name: rounded(value) for name, value in figures.items()}, indent=1)
    sys.stdout.write(text + "\n")
    if words.output:
        words.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
