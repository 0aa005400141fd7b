"""What a suite is given: where to send, what to compare with, how much to do; how figures look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from service_cli.policies.outcomes import percentile

from .load import drive
from .processes import cpu_look

if TYPE_CHECKING:
    from .load import Lane, Load, Target


Figures: TypeAlias = dict[str, object]
"""A suite's result, ready for JSON."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much each suite does."""

    rounds: int = 3
    """Repeats; medians over them are reported."""
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
    """Creates that find no box."""
    idle_instances: int = 100
    """Instances held for the memory of one."""
    echo_instances: int = 10_000
    """Pure-data instances held at once."""
    code_instances: int = 1000
    """Instances with agent code held at once in process boxes."""
    docker_instances: int = 16
    """The same with a container each."""
    queued_calls: int = 4000
    """Calls queued in the client."""
    tasks: int = 200
    """Tasks of an environment whose references are played."""
    episodes: int = 2000
    """Most episodes at one number of clients."""
    level_s: float = 6.0
    """Seconds after which no further episode is begun at one number of clients."""
    warm_up_s: float = 2.0
    """The same before the first."""
    plain_worlds: int = 5
    """Worlds of an environment's own package in a plain process."""

    @classmethod
    def quick(cls) -> Sizes:
        """Enough to see that everything works; the figures are rough."""
        return cls(1, 100, 320, 8, 16, 5, 5, 1, 8, 200, 16, 2, 500, 20, 20, 1.0, 1.0, 1)


@dataclass(frozen=True, slots=True)
class Bench:
    """One running service and the yardstick beside it."""

    service: Target
    yardstick: Target
    sizes: Sizes
    kind: str
    """Kind of the sandboxes."""
    tell: Callable[[str], None]
    """Takes a line about progress."""

    async def echo(self, lanes: int, requests: int) -> Load:
        """The yardstick under a load of so many requests in all."""
        body = b'{"message":{"role":"assistant","content":"x"},"step_index":0}'

        async def lane(lane: Lane) -> None:
            for _ in range(requests // lanes):
                await lane.post("/echo", body)

        return await drive(self.yardstick, [lane] * lanes)

    async def echo_ms(self) -> float:
        """Median time of one yardstick request, nothing else going on."""
        load = await self.echo(1, self.sizes.sequential)
        return percentile(load.latencies_ms["/echo"], 0.5)


def spread(values_ms: Sequence[float], yardstick_ms: float) -> Figures:
    """Percentiles of one stretch, and how many yardsticks the median is."""
    middle = percentile(values_ms, 0.5)
    return {
        "p50_ms": middle,
        "p95_ms": percentile(values_ms, 0.95),
        "yardstick_p50_ms": yardstick_ms,
        "ratio_p50": middle / yardstick_ms,
    }


def beside(rounds: Sequence[Figures]) -> Figures:
    """Medians over rounds of the same figures."""
    return {name: median(_number(figures[name]) for figures in rounds) for name in rounds[0]}


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no figure")
    return float(value)


async def cpu_by_part(work: Callable[[], Awaitable[Load]]) -> tuple[Load, dict[str, float]]:
    """Do the work; its load, and milliseconds of CPU by request for each part of the service."""
    before = cpu_look()
    load = await work()
    used = before.until(cpu_look())
    cpu_ms = {part: seconds * 1e3 / load.requests for part, seconds in used.items() if part != "yardstick"}
    cpu_ms["load_generator"] = load.own_cpu_ms
    return load, cpu_ms


def rounded(value: object) -> object:
    """Figures with four significant digits: more would be noise."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: rounded(item) for name, item in value.items()}
    return value
