"""The context of a suite: service, yardstick and sizes; and functions that compute its figures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from service_cli.policies.outcomes import percentile

from .load import drive
from .processes import cpu_snapshot

if TYPE_CHECKING:
    from .load import Load, LoadConnection, Target


Figures: TypeAlias = dict[str, object]
"""A suite's result, ready for JSON."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The amount of work of each suite."""

    rounds: int = 3
    """Repetitions; their medians are reported."""
    sequential: int = 1000
    """Requests one after another."""
    concurrent: int = 4000
    """Requests at 32 in flight."""
    in_flight: int = 32
    """Connections of the concurrent suites."""
    batch: int = 64
    """Operations in a batch."""
    batches: int = 50
    """Batches in a round."""
    creates: int = 50
    """Instances created and released one after another."""
    cold_creates: int = 5
    """Creates that wait for a new box."""
    idle_instances: int = 100
    """Instances held to measure the memory of one."""
    echo_instances: int = 10_000
    """Instances without agent code held at once."""
    code_instances: int = 1000
    """Instances with agent code held at once in process boxes."""
    docker_instances: int = 16
    """Instances with agent code held at once, each in a container."""
    queued_calls: int = 4000
    """Calls queued in the client."""
    tasks: int = 200
    """Tasks of an environment whose references are played."""
    episodes: int = 2000
    """Maximum episodes at one number of clients."""
    level_s: float = 6.0
    """Seconds after which no further episode starts at one number of clients."""
    warm_up_s: float = 2.0
    """Seconds of episodes before the first measurement."""
    plain_worlds: int = 5
    """Worlds of an environment's own package in a plain process."""

    @classmethod
    def quick(cls) -> Sizes:
        """Return sizes that only check that everything works."""
        return cls(1, 100, 320, 8, 16, 5, 5, 1, 8, 200, 16, 2, 500, 20, 20, 1.0, 1.0, 1)


@dataclass(frozen=True, slots=True)
class Bench:
    """A running service and the yardstick."""

    service: Target
    yardstick: Target
    sizes: Sizes
    kind: str
    """Kind of the sandboxes."""
    report: Callable[[str], None]
    """Prints a line of progress."""

    async def echo(self, connections: int, requests: int) -> Load:
        """Send ``requests`` requests to the yardstick over ``connections`` connections."""
        body = b'{"message":{"role":"assistant","content":"x"},"step_index":0}'

        async def work(connection: LoadConnection) -> None:
            for _ in range(requests // connections):
                await connection.post("/echo", body)

        return await drive(self.yardstick, [work] * connections)

    async def echo_ms(self, connections: int = 1) -> float:
        """Return the median time of a request to the yardstick over ``connections`` connections."""
        requests = self.sizes.sequential if connections == 1 else self.sizes.concurrent
        load = await self.echo(connections, requests)
        return percentile(load.latencies_ms["/echo"], 0.5)


def percentiles(values_ms: Sequence[float], yardstick_ms: float) -> Figures:
    """Return the percentiles of latencies, and the ratio of the median to the yardstick's."""
    middle = percentile(values_ms, 0.5)
    return {
        "p50_ms": middle,
        "p95_ms": percentile(values_ms, 0.95),
        "yardstick_p50_ms": yardstick_ms,
        "ratio_p50": middle / yardstick_ms,
    }


def medians(rounds: Sequence[Figures]) -> Figures:
    """Return the medians of figures over rounds."""
    return {name: median(_number(figures[name]) for figures in rounds) for name in rounds[0]}


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


async def cpu_by_part(work: Callable[[], Awaitable[Load]]) -> tuple[Load, dict[str, float]]:
    """Return the load of ``work`` and the CPU milliseconds per request of each part of the service."""
    before = cpu_snapshot()
    load = await work()
    used = before.until(cpu_snapshot())
    cpu_ms = {part: seconds * 1e3 / load.requests for part, seconds in used.items() if part != "yardstick"}
    cpu_ms["load_generator"] = load.own_cpu_ms
    return load, cpu_ms


def rounded(value: object) -> object:
    """Round figures to four significant digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return value
