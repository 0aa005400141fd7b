"""Measure episodes by number of clients: rates, times and CPU, compared with the yardstick."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from service_cli.policies.outcomes import percentile

from .context import percentiles
from .episodes import CREATE, EVALUATE, RELEASE, STEP, play_many
from .processes import cpu_snapshot

if TYPE_CHECKING:
    from .context import Bench, Figures
    from .episodes import EpisodeCounts
    from .load import Load
    from .scripts import Scripts


_PHASES = {"create": CREATE, "step": STEP, "evaluate": EVALUATE, "release": RELEASE}
_YARDSTICK = "yardstick"
_ECHOES_A_CLIENT = 50
_LEAST_ECHOES = 2000
# Background work after the last response belongs to the episodes, too.
_AFTERWARDS_S = 0.3


@dataclass(frozen=True, slots=True)
class Echo:
    """The yardstick's figures at one number of clients."""

    p50_ms: float
    per_s: float
    cpu_s: float
    """CPU seconds per request."""


async def levels(bench: Bench, scripts: Scripts, clients: Sequence[int]) -> dict[str, Figures]:
    """Return the figures by number of clients."""
    return {f"at_{connections}": await level(bench, scripts, connections) for connections in clients}


async def level(bench: Bench, scripts: Scripts, connections: int) -> Figures:
    """Measure one number of clients."""
    echo = await _echo(bench, connections)
    before = cpu_snapshot()
    load, tally = await play_many(
        bench.service, scripts, connections, bench.sizes.episodes, bench.sizes.level_s
    )
    await asyncio.sleep(_AFTERWARDS_S)
    used = before.until(cpu_snapshot())
    figures = level_figures(load, tally, used, echo)
    rate, problem = f"{tally.graded / load.wall_s:.1f} episodes/s", tally.problem
    bench.report(f"    {connections} clients: {rate}" + (f"; {problem}" if problem else ""))
    return figures


def level_figures(load: Load, tally: EpisodeCounts, used_s: Mapping[str, float], echo: Echo) -> Figures:
    """Return the figures of played episodes; ``used_s`` is CPU seconds by part.

    Rates and CPU are those of episodes that were graded, so that failures improve no figure.
    """
    figures: Figures = {
        "episodes": tally.episodes,
        "solved": tally.solved,
        "unsolved": len(tally.unsolved),
        "failed": len(tally.failures),
        "refused_requests": load.refused,
    }
    if tally.problem is not None:
        figures["first_problem"] = tally.problem
    if not tally.graded:
        return figures
    server = {part: seconds / tally.graded for part, seconds in used_s.items() if part != _YARDSTICK}
    cpu_s, requests = sum(server.values()), load.requests / tally.graded
    figures |= {
        "episodes_per_s": tally.graded / load.wall_s,
        "requests_per_s": load.per_s,
        "yardstick_requests_per_s": echo.per_s,
        "ratio_requests_per_s": echo.per_s / load.per_s,
        "server_cpu_s_per_episode": cpu_s,
        "yardstick_cpu_s_per_request": echo.cpu_s,
        "ratio_cpu_per_request": cpu_s / requests / echo.cpu_s if echo.cpu_s else None,
        "cpu_s_per_episode": {**server, "load_generator": load.own_cpu_s / tally.graded},
    }
    for name, path in _PHASES.items():
        if load.latencies_ms.get(path):
            figures[name] = percentiles(load.latencies_ms[path], echo.p50_ms)
    return figures


async def _echo(bench: Bench, connections: int) -> Echo:
    before = cpu_snapshot()
    load = await bench.echo(connections, max(_LEAST_ECHOES, _ECHOES_A_CLIENT * connections))
    used = before.until(cpu_snapshot()).get(_YARDSTICK, 0.0)
    return Echo(percentile(load.latencies_ms["/echo"], 0.5), load.per_s, used / load.requests)
