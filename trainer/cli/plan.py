"""``sandbox-trainer plan``: compute a run's GPUs, memory and disk, and what does not fit."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from trainer.config.reading import read_run

from .options import JsonOption, OverridesArgument, RunArgument, driver_of
from .placing import on_described_machine, on_this_machine
from .terminal import FAILED, explained, results, write_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trainer.capacity.machine import Machine
    from trainer.capacity.plan import CapacityPlan
    from trainer.config import RunConfig

_NAME_WIDTH = 46
"""Width of the names in every table, so that the numbers are below each other."""
_NUMBER_WIDTH = 24
"""Room for the numbers: where a terminal is too narrow for both, the names wrap."""

_GpuMemoryOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory of each GPU, such as 80GiB; default: this machine's."),
]
_HostMemoryOption = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Main memory of each machine, such as 256GiB.")
]
_SharedMemoryOption = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Room in /dev/shm of each machine, such as 64GiB.")
]
_DiskOption = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Free disk space for the run's root, such as 1TiB.")
]


def plan(
    context: typer.Context,
    run: RunArgument,
    overrides: OverridesArgument = None,
    gpus: Annotated[
        int | None,
        typer.Option("--gpus", min=0, metavar="N", help="GPUs of each machine."),
    ] = None,
    gpu_memory: _GpuMemoryOption = None,
    machines: Annotated[
        int, typer.Option("--machines", min=1, metavar="N", help="Number of machines, all alike.")
    ] = 1,
    host_memory: _HostMemoryOption = None,
    shared_memory: _SharedMemoryOption = None,
    disk: _DiskOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a run needs of GPUs, host memory, /dev/shm and disk, before starting it.

    Everything is computed from the run file and the model's configuration: no weights are loaded, and no GPU
    is needed. With --gpus or --gpu-memory the plan is for other machines, and only the given sizes are
    compared. A run that does not set GPUs is placed on those of the machine as `train` would place it there,
    and the choice is printed. The exit code is 1 if something does not fit.

    Examples:

        sandbox-trainer plan deploy/runs/bfcl_8gpu.toml --gpus 8 --gpu-memory 80GiB

        sandbox-trainer plan RUN.toml --json
    """
    from trainer.capacity.plan import capacity_plan

    with explained():
        config = read_run(run, overrides or ())
        if gpus is None and gpu_memory is not None:
            gpus = 1
        if gpus is None:
            config = on_this_machine(driver_of(context), config)
        else:
            config = on_described_machine(config, gpus)
        sizes = {
            "gpu_memory": gpu_memory,
            "host_memory": host_memory,
            "shared_memory": shared_memory,
            "disk": disk,
        }
        found = capacity_plan(config, _machine(config, gpus, sizes, machines))
    if as_json:
        write_json(asdict(found) | {"fits": not found.problems})
    else:
        console = results()
        console.print(_view(found, console.width))
    if found.problems:
        raise typer.Exit(FAILED)


def _machine(config: RunConfig, gpus: int | None, sizes: dict[str, str | None], count: int) -> Machine:
    """Return the machine that the options describe; this one without options about GPUs."""
    from trainer.capacity.machine import Machine, bytes_of, this_machine

    named = {name: bytes_of(text) for name, text in sizes.items() if text is not None}
    machine = this_machine(config.root) if gpus is None else Machine(gpus=gpus, gpu_memory=None)
    return replace(
        machine,
        count=count,
        gpu_memory=named.get("gpu_memory", machine.gpu_memory),
        host_memory=named.get("host_memory", machine.host_memory),
        shared_memory=named.get("shared_memory", machine.shared_memory),
        disk=named.get("disk", machine.disk),
    )


def _view(plan: CapacityPlan, width: int) -> RenderableType:
    title = f"{plan.name}: {plan.model}, {_count(plan.parameters)} parameters"
    if plan.trained != plan.parameters:
        title += f", {_count(plan.trained)} trained"
    parts: list[RenderableType] = [Text(title, style="bold")]
    for group in plan.groups:
        parts.append(_table(f"{len(group.slots)} x GPU: {group.kind}", group.parts, group.available, width))
    machine = plan.machine
    parts += [
        _table("host memory per machine", plan.host, machine.host_memory, width),
        _table("/dev/shm per machine", plan.storage.shared_memory, machine.shared_memory, width),
        _table("disk", plan.storage.disk, machine.disk, width),
        Text(_tokens(plan)),
    ]
    parts += [Text(f"warning: {sentence}", style="yellow") for sentence in plan.warnings]
    parts += [Text(f"does not fit: {problem}", style="red") for problem in plan.problems]
    if not plan.problems:
        parts.append(Text("fits", style="green"))
    return Group(*parts)


def _table(title: str, rows: dict[str, int], available: int | None, width: int) -> RenderableType:
    table = Table(box=SIMPLE_HEAD)
    table.add_column(title, min_width=max(1, min(_NAME_WIDTH, width - _NUMBER_WIDTH)), overflow="fold")
    table.add_column("GiB", justify="right", no_wrap=True)
    for name, size in rows.items():
        table.add_row(name, _gib(size))
    total = _gib(sum(rows.values()))
    table.add_row("total", total if available is None else f"{total} of {_gib(available)}", style="bold")
    return table


def _tokens(plan: CapacityPlan) -> str:
    tokens = plan.tokens
    cache = f"; each engine caches {plan.cache_tokens:,} tokens" if plan.cache_tokens else ""
    return (
        f"a step: {tokens.episodes:,} episodes of at most {plan.context:,} tokens; "
        f"{tokens.expected:,} tokens if they fill half of it, {tokens.most:,} at most; "
        f"{tokens.passes:,} passes per worker{cache}"
    )


def _count(parameters: int) -> str:
    return f"{parameters / 1e9:.2f}B" if parameters >= 1e9 else f"{parameters / 1e6:.1f}M"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}"
