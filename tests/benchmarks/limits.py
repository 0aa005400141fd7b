"""Measure what limits a large number of instances: a supervisor's memory and CPU, the store, and the routing.

One supervisor without Ray and HTTP holds more and more instances of an environment that shares workers, in
process boxes; at each size the CPU of a create and of a step, the memory of one instance more, and the CPU of
holding them idle are measured. Whole episodes give the rows and bytes of the store, and its writer alone the
rows per second. Routing is measured for fleets of up to 10,000 supervisors. Each part has its yardstick.

    python -m tests.benchmarks.limits -o limits.json

PostgreSQL is measured if ``SANDBOX_TEST_POSTGRES_URL`` names a database, which the measurement fills.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import create_engine, text

from deploy.supervisor_core import NodeSupervisor
from sandbox_service.config import ServiceConfig, StoreConfig
from sandbox_service.fleet.members import Member
from sandbox_service.fleet.placement import least_loaded, rank
from sandbox_service.stream.address import TcpAddress
from sandbox_service.stream.failures import reply_or_raise
from sandbox_service.supervisor.options import SupervisorOptions
from sandbox_service.trajectories.store import open_store
from sandbox_service.wire.frames import Frame, Op
from service_cli.bench.machine import describe_machine
from tests.harness.episodes import event, instance

IN_FLIGHT = 32
STEPS = 5
EPISODES = 200
ROWS = 20_000
IDLE_S = 10.0
_PARTS = ("routing", "held", "store")
SAID = {"message": {"role": "assistant", "content": "measured"}}


class Supervisor:
    """A supervisor in this process, and what it and its boxes have used."""

    def __init__(self, node: NodeSupervisor, environment: str, task: str) -> None:
        self._node = node
        self._new = {"environment": environment, "task_id": task}
        self._numbers = count(1)

    async def call(
        self, op: Op, instance_id: str = "", body: Mapping[str, Any] | None = None, **meta: Any
    ) -> Any:
        number = next(self._numbers)
        fields = {"instance_id": instance_id, **(body or {})} if instance_id else body or {}
        meta = {"tenant": "t", "request_id": f"r{number}", "key": f"k{number}", **meta}
        reply = await self._node.handle(Frame(op, number, instance_id, meta, json.dumps(fields).encode()))
        return json.loads(reply_or_raise(reply).body or b"null")

    async def create(self) -> str:
        return str((await self.call(Op.CREATE, "", self._new))["instance_id"])

    async def play(self) -> None:
        """Play one episode of ``STEPS`` steps."""
        made = await self.create()
        for index in range(STEPS):
            await self.call(Op.STEP, made, SAID, step_index=index)
        await self.call(Op.EVALUATE, made)
        await self.call(Op.RELEASE, made)

    def cpu_s(self) -> tuple[float, float]:
        """Return the CPU seconds of the supervisor, this process, and of its boxes."""
        boxes = sum(sum(each.cpu_times()[:2]) for each in psutil.Process().children(recursive=True))
        return time.process_time(), boxes

    def memory_kib(self) -> tuple[float, float]:
        """Return the share of memory (PSS) of the supervisor and of its boxes: shared pages count once."""
        process = psutil.Process()
        boxes = sum(each.memory_full_info().pss for each in process.children(recursive=True))
        return process.memory_full_info().pss / 1024, boxes / 1024


@asynccontextmanager
async def supervisor(environment: str, task: str, url: str, most: int) -> AsyncIterator[Supervisor]:
    """A started supervisor whose boxes hold ``most`` instances."""
    with tempfile.TemporaryDirectory(prefix="limits-") as folder:
        config = ServiceConfig.model_validate(
            {
                "sandbox": {"kind": "process", "state_dir": folder},
                "store": {"url": url or f"sqlite:///{folder}/t.sqlite", "max_failing_s": 600},
                "pool": {
                    "min_boxes": 1,
                    "max_boxes": max(1, most // 500),
                    "max_instances_per_tenant": most + 1,
                },
                "lease": {"idle_timeout_s": 36_000},
                "deadline": {"create_s": 600, "step_s": 600, "evaluate_s": 600},
                "environments": {"enabled": (environment,)},
            }
        )
        node = NodeSupervisor(config, SupervisorOptions(name=f"s{uuid.uuid4().hex[:8]}", fleet="limits"))
        try:
            await node.start()
            yield Supervisor(node, environment, task)
        finally:
            await node.close()


async def at_once(total: int, act: Callable[[], Any]) -> list[Any]:
    """Call ``act`` so often, with ``IN_FLIGHT`` calls at a time; return the results."""
    left, results = iter(range(total)), []

    async def work() -> None:
        for _ in left:
            results.append(await act())

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    return results


async def held(environment: str, task: str, sizes: Sequence[int]) -> dict[str, object]:
    """Measure a supervisor that holds so many instances."""
    rows: dict[str, object] = {}
    async with supervisor(environment, task, "", max(sizes)) as one:
        instances: list[str] = []
        memory = one.memory_kib()
        for size in sizes:
            more, before = size - len(instances), one.cpu_s()
            began = time.monotonic()
            instances += await at_once(more, one.create)
            create_s, after = time.monotonic() - began, one.cpu_s()
            grown, memory_before = one.memory_kib(), memory
            memory = grown
            rows[f"{size} held"] = {
                "creates_per_s": round(more / create_s),
                "create_cpu_ms": per(before, after, more),
                "kib_per_instance": [
                    round((now - then) / more, 2) for now, then in zip(grown, memory_before, strict=True)
                ],
                **await steps(one, instances),
                "idle_cpu_share": await idle(one),
            }
    return rows


async def steps(one: Supervisor, instances: Sequence[str]) -> dict[str, object]:
    """Measure a first step on 1,000 of the instances, one after another."""
    chosen = instances[-1000:]
    times, before = [], one.cpu_s()
    for each in chosen:
        began = time.perf_counter()
        await one.call(Op.STEP, each, SAID)
        times.append(1000 * (time.perf_counter() - began))
    return {
        "step_p50_ms": round(statistics.median(times), 3),
        "step_cpu_ms": per(before, one.cpu_s(), len(chosen)),
    }


async def idle(one: Supervisor) -> list[float]:
    """Return the CPU that supervisor and boxes use while nothing is called, in cores."""
    before, began = one.cpu_s(), time.monotonic()
    await asyncio.sleep(IDLE_S)
    seconds = time.monotonic() - began
    return [round((now - then) / seconds, 4) for now, then in zip(one.cpu_s(), before, strict=True)]


def per(before: tuple[float, float], after: tuple[float, float], number: int) -> list[float]:
    """Return the CPU milliseconds of supervisor and boxes for each of ``number`` calls."""
    return [round(1000 * (now - then) / number, 4) for now, then in zip(after, before, strict=True)]


async def stored(environment: str, task: str, url: str) -> dict[str, object]:
    """Measure the rows and bytes of whole episodes, and the rows per second of the writer alone."""
    with tempfile.TemporaryDirectory(prefix="limits-") as folder:
        url = url or f"sqlite:///{folder}/t.sqlite"
        rows, size = database(url)
        async with supervisor(environment, task, url, IN_FLIGHT) as one:
            before, began = one.cpu_s(), time.monotonic()
            await at_once(EPISODES, one.play)
            seconds, after = time.monotonic() - began, one.cpu_s()
        more_rows, more_size = database(url)
        return {
            "steps_per_episode": STEPS,
            "rows_per_episode": round((more_rows - rows) / EPISODES, 2),
            "bytes_per_episode": round((more_size - size) / EPISODES),
            "episodes_per_s": round(EPISODES / seconds, 1),
            "cpu_ms_per_episode": per(before, after, EPISODES),
            "writer_rows_per_s": await written(url),
        }


async def written(url: str) -> int:
    """Return the rows per second of the store's writer, with results of 500 bytes."""
    name = f"w{uuid.uuid4().hex[:8]}"
    store = open_store(StoreConfig(url=url))
    store.open_instance(instance(f"{name}.1"))
    began = time.monotonic()
    for number in range(ROWS):
        store.append(event(f"{name}.1", number, response=b"x" * 500))
    await store.flush()
    seconds = time.monotonic() - began
    await store.close()
    return round(ROWS / seconds)


def database(url: str) -> tuple[int, int]:
    """Return the rows of a database's events and its bytes; nothing of one that is not there yet."""
    engine = create_engine(url)
    sqlite = engine.dialect.name == "sqlite"
    try:
        with engine.connect() as connection:
            if sqlite:
                connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))
                size = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
            else:
                size = "SELECT pg_database_size(current_database())"
            there = engine.dialect.has_table(connection, "events")
            rows = connection.execute(text("SELECT count(*) FROM events")).scalar_one() if there else 0
            return int(rows), int(connection.execute(text(size)).scalar_one())
    finally:
        engine.dispose()


def plain_rows_per_s() -> int:
    """Return the rows per second of SQLite alone, with rows and transactions as the store's writer has."""
    with tempfile.TemporaryDirectory(prefix="limits-") as folder:
        connection = sqlite3.connect(Path(folder, "t.sqlite"))
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")  # as the store does without ``store.fsync``
        connection.execute(
            "CREATE TABLE events (id TEXT, number INTEGER, data BLOB, PRIMARY KEY (id, number))"
        )
        began = time.monotonic()
        for first in range(0, ROWS, 256):
            rows = [("i", number, b"x" * 500) for number in range(first, min(first + 256, ROWS))]
            connection.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
            connection.commit()
        seconds = time.monotonic() - began
        connection.close()
    return round(ROWS / seconds)


def routing() -> dict[str, object]:
    """Measure the choice of a supervisor in fleets of several sizes."""
    rows: dict[str, object] = {}
    for size in (10, 100, 1000, 10_000):
        before = psutil.Process().memory_full_info().uss
        members = {
            f"s{number:010x}x0": Member(
                f"s{number:010x}x0", TcpAddress(f"10.0.{number % 256}.1", 1, None), "x" * 64
            )
            for number in range(size)
        }
        memory = psutil.Process().memory_full_info().uss - before
        load = dict.fromkeys(members, 1)
        rows[f"{size} supervisors"] = {
            "rank_us": microseconds(lambda: rank("t\0key", members)),  # noqa: B023
            "least_loaded_us": microseconds(lambda: least_loaded(load, members, 7)),  # noqa: B023
            "owner_lookup_us": microseconds(lambda: members.get("s0000000001x0")),  # noqa: B023
            "kib": round(memory / 1024),
        }
    return rows


def microseconds(act: Callable[[], object]) -> float:
    """Return the median CPU time of a call, which other work on the machine hardly changes."""
    times = []
    for _ in range(51):
        began = time.thread_time()
        act()
        times.append(1e6 * (time.thread_time() - began))
    return round(statistics.median(times), 2)


def json_us() -> float:
    """Return the time in which a step's body is parsed and written: a yardstick of the processor."""
    body = json.dumps({"instance_id": "s.1", **SAID, "step_index": 3, "idempotency_key": "k" * 16})
    return microseconds(lambda: [json.dumps(json.loads(body)) for _ in range(100)]) / 100


async def measure(
    environment: str, task: str, sizes: Sequence[int], parts: Sequence[str]
) -> dict[str, object]:
    """Measure the parts."""
    results: dict[str, object] = {
        "machine": describe_machine(),
        "environment": environment,
        "pairs": "supervisor, boxes",
    }
    if "routing" in parts:
        results["routing"] = routing()
    if "held" in parts:
        results["held"] = await held(environment, task, sizes)
    if "store" in parts:
        results["sqlite"] = await stored(environment, task, "")
        if url := os.environ.get("SANDBOX_TEST_POSTGRES_URL"):
            results["postgresql"] = await stored(environment, task, url)
    results["yardsticks"] = {"plain_sqlite_rows_per_s": plain_rows_per_s(), "json_round_trip_us": json_us()}
    results["load_average_at_end"] = os.getloadavg()[0]
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--environment", default="echo")
    parser.add_argument("--task", default="echo-10")
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=_PARTS)
    parser.add_argument("--instances", type=int, nargs="+", default=[1000, 10_000])
    chosen = parser.parse_args()
    results = asyncio.run(measure(chosen.environment, chosen.task, chosen.instances, chosen.parts))
    chosen.output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
