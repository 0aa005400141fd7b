"""Episodes of one environment by number of clients: rates, times, CPU, each beside the bare echo."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service_cli.policies.outcomes import percentile

from .context import spread
from .episodes import CREATE, EVALUATE, RELEASE, STEP, play_many
from .processes import cpu_look

if TYPE_CHECKING:
    from .context import Bench, Figures
    from .episodes import Tally
    from .load import Load
    from .scripts import Scripts


_PHASES = {"create": CREATE, "step": STEP, "evaluate": EVALUATE, "release": RELEASE}
_YARDSTICK = "yardstick"
_ECHOES_A_CLIENT = 50
_LEAST_ECHOES = 2000
# What goes on off the caller's way after the last answer belongs to the episodes, too.
_AFTERWARDS_S = 0.3


@dataclass(frozen=True, slots=True)
class Echo:
    """The yardstick at one number of clients."""

    p50_ms: float
    per_s: float
    cpu_s: float
    """CPU of one request."""


async def levels(bench: Bench, scripts: Scripts, clients: Sequence[int]) -> dict[str, Figures]:
    """The figures by number of clients."""
    return {f"at_{lanes}": await level(bench, scripts, lanes) for lanes in clients}


async def level(bench: Bench, scripts: Scripts, lanes: int) -> Figures:
    """The figures at one number of clients."""
    echo = await _echo(bench, lanes)
    before = cpu_look()
    load, tally = await play_many(bench.service, scripts, lanes, bench.sizes.episodes, bench.sizes.level_s)
    await asyncio.sleep(_AFTERWARDS_S)
    used = before.until(cpu_look())
    figures = level_figures(load, tally, used, echo)
    rate, problem = f"{tally.episodes / load.wall_s:.1f} episodes/s", tally.problem
    bench.tell(f"    {lanes} clients: {rate}" + (f"; {problem}" if problem else ""))
    return figures


def level_figures(load: Load, tally: Tally, used_s: Mapping[str, float], echo: Echo) -> Figures:
    """What a stretch of episodes came to; ``used_s`` is CPU by part."""
    server = {part: seconds / tally.episodes for part, seconds in used_s.items() if part != _YARDSTICK}
    cpu_s, requests = sum(server.values()), load.requests / tally.episodes
    figures: Figures = {
        "episodes": tally.episodes,
        "solved": tally.solved,
        "unsolved": len(tally.unsolved),
        "failed": len(tally.failures),
        "episodes_per_s": tally.episodes / load.wall_s,
        "requests_per_s": load.per_s,
        "yardstick_requests_per_s": echo.per_s,
        "ratio_requests_per_s": echo.per_s / load.per_s,
        "server_cpu_s_per_episode": cpu_s,
        "yardstick_cpu_s_per_request": echo.cpu_s,
        "ratio_cpu_per_request": cpu_s / requests / echo.cpu_s if echo.cpu_s else None,
        "cpu_s_per_episode": {**server, "load_generator": load.own_cpu_s / tally.episodes},
    }
    if tally.problem is not None:
        figures["first_problem"] = tally.problem
    for name, path in _PHASES.items():
        if load.latencies_ms.get(path):
            figures[name] = spread(load.latencies_ms[path], echo.p50_ms)
    return figures


async def _echo(bench: Bench, lanes: int) -> Echo:
    before = cpu_look()
    load = await bench.echo(lanes, max(_LEAST_ECHOES, _ECHOES_A_CLIENT * lanes))
    used = before.until(cpu_look()).get(_YARDSTICK, 0.0)
    return Echo(percentile(load.latencies_ms["/echo"], 0.5), load.per_s, used / load.requests)
