"""``sandbox-trainer simulate``: load a fleet of sandboxes as training would, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from trainer.config.reading import read_run
from trainer.launch.simulated_model import SimulatedModel

from .figures import percent
from .options import JsonOption, OverridesArgument, RunArgument, driver_of
from .terminal import FAILED, explained, notes, results, write_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trainer.batches.simulation import SimulationResult


_MessageOption = Annotated[
    str,
    typer.Option(
        "--message",
        "--line",
        metavar="TEXT",
        help="Message for tasks without a demonstration; --line is the former name.",
    ),
]


def simulate(
    context: typer.Context,
    run: RunArgument,
    overrides: OverridesArgument = None,
    demonstrations: Annotated[
        Path | None,
        typer.Option(
            "--demonstrations",
            "-d",
            metavar="FILE",
            help="Messages by task; default: the warm start's demonstrations.",
        ),
    ] = None,
    message: _MessageOption = "I do not know.",
    turn_s: Annotated[
        float, typer.Option("--turn", min=0, metavar="SECONDS", help="Median duration of a turn.")
    ] = 0.5,
    spread: Annotated[
        float,
        typer.Option(
            "--spread",
            min=0,
            help="Standard deviation of a turn's log duration: at 1, one in 100 takes ten times the median.",
        ),
    ] = 1.0,
    update_s: Annotated[
        float,
        typer.Option("--update", min=0, metavar="SECONDS", help="Duration of an update and its weight sync."),
    ] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Play rollouts at full speed: real sandboxes and the real loop, scripted turns, no model.

    The result shows a fleet's throughput, and the benefit of rollout.max_staleness when some episodes take
    much longer than most: with 0 sandboxes wait for each update, and the update for the slowest episode.

    Examples:

        sandbox-trainer simulate deploy/runs/cpu_demo.toml steps=10 --turn 0.2

        sandbox-trainer simulate RUN.toml rollout.max_staleness=1 service.url=http://fleet:8080 --json
    """
    with explained():
        config = read_run(run, overrides or ())
        shown = demonstrations
        if shown is None and config.warm_start is not None:
            shown = config.warm_start.demonstrations
        episodes = config.steps * config.rollout.groups * config.rollout.group_size
        notes().print(f"{config.steps} steps, {episodes} episodes ...")
        result = driver_of(context).simulate(config, SimulatedModel(shown, message, turn_s, spread, update_s))
    if as_json:
        write_json(_plain(result))
    else:
        results().print(_view(result))
    if not result.episodes:
        raise typer.Exit(FAILED)


def _plain(result: SimulationResult) -> dict[str, object]:
    return {
        "seconds": result.seconds,
        "steps": result.steps,
        "episodes": result.episodes,
        "episodes_per_s": result.episodes_per_s,
        "success": result.success,
        "failures": dict(result.failures),
        "phases": {name: {"p50": phase.p50, "p95": phase.p95} for name, phase in result.phases.items()},
        "take_s": result.take_s,
        "idle_share": result.idle_share,
        "staleness": result.staleness,
    }


def _view(result: SimulationResult) -> RenderableType:
    table = Table(box=SIMPLE_HEAD)
    for column in ("seconds of an episode", "p50", "p95"):
        table.add_column(column, justify="left" if column.startswith("seconds") else "right")
    for name, phase in result.phases.items():
        table.add_row(name, f"{phase.p50:.3f}", f"{phase.p95:.3f}")
    failures = ", ".join(f"{name} {count}" for name, count in result.failures.items()) or "none"
    lines = (
        f"{result.episodes} episodes in {result.seconds:.1f} s: {result.episodes_per_s:.1f} a second, "
        f"{percent(result.success)} solved",
        f"the learner waited {result.take_s:.1f} s for {result.steps} batches; no turn "
        f"was being sampled for {percent(result.idle_share)} of the time",
        f"tokens were {result.staleness:.2f} updates old, failed attempts: {failures}",
    )
    return Group(Text(lines[0], style="bold"), table, *(Text(line) for line in lines[1:]))
