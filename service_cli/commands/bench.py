"""``sandbox-service bench``: run benchmarks and print JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from local_processes.signals import SignalHandlers
from sandbox_service.config import SandboxConfig
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.factory import open_engine
from service_cli.bench.context import Sizes
from service_cli.bench.environments import problems
from service_cli.bench.load import LoadError
from service_cli.bench.session import BenchPlan, measure
from service_cli.bench.suites import CLIENT, DURABILITY, EPISODES, SUITES
from service_cli.bench.variants import VariantError, playable

from .terminal import INTERRUPTED, WRONG, explained, fail, notes_line, prepare_output, write_json

if TYPE_CHECKING:
    from service_cli.bench.context import Figures


_KINDS = ("process", "docker")
_NAMES = (CLIENT, *SUITES, DURABILITY, EPISODES)
_CLIENTS = [1, 8, 32, 128]


def bench(
    suites: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SUITE]...", help=f"Default: all of {', '.join(_NAMES)}."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="process, docker, or both. Default: process, and docker if an engine answers."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do little work, as a check.")] = False,
    docker_instances: Annotated[
        int | None, typer.Option(min=1, help="Containers with code instances at once.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env", "-e", help="Environment of the suite episodes, repeatable. Default: all that are set up."
        ),
    ] = None,
    clients: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Clients of the suite episodes, repeatable. Default: 1, 8, 32, 128."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Also write the JSON to a file.")
    ] = None,
) -> None:
    """Benchmark the service through HTTP and print JSON. Run it on a quiet machine.

    Latencies are reported with those of a bare HTTP echo of the same run, over as many connections, and the
    ratio of their medians. The suites client, noop_step, batch, create_warm, fork and durability report
    medians of several rounds, the others measure once. The suite episodes plays reference solutions, about a
    minute per environment; the exit code is 1 if one of them is not solved.

    Examples:

        sandbox-service bench

        sandbox-service bench noop_step batch --kind process

        sandbox-service bench code_instances --kind docker --docker-instances 64

        sandbox-service bench episodes --kind process --env bfcl --clients 32
    """
    chosen = suites or list(_NAMES)
    unknown = set(chosen) - set(_NAMES)
    if unknown:
        raise fail(f"unknown suite {', '.join(sorted(unknown))}; expected one of: {', '.join(_NAMES)}", WRONG)
    if set(kind or ()) - set(_KINDS):
        raise fail(f"unknown kind; expected one of: {', '.join(_KINDS)}", WRONG)
    sizes = Sizes.quick() if quick else Sizes()
    if docker_instances is not None:
        sizes = replace(sizes, docker_instances=docker_instances)
    if output is not None:
        prepare_output(output)
    figures = _measured(chosen, kind, sizes, env or (), clients or _CLIENTS)
    write_json(figures, output)
    if wrong := problems(figures):
        raise fail("; ".join(wrong))


def _measured(
    suites: Sequence[str],
    kinds: Sequence[str] | None,
    sizes: Sizes,
    environments: Collection[str],
    clients: Sequence[int],
) -> Figures:
    # SIGTERM ends what was started, as Ctrl-C does, also where no service handles it.
    with explained(), SignalHandlers().open():
        try:
            variants = playable(environments) if EPISODES in suites else []
            plan = BenchPlan(suites, kinds or asyncio.run(_available()), sizes, variants, clients)
            return measure(plan, notes_line)
        except (LoadError, VariantError) as error:
            raise fail(str(error)) from error
        except (asyncio.CancelledError, KeyboardInterrupt):
            raise fail("interrupted", INTERRUPTED) from None


async def _available() -> list[str]:
    try:
        engine = await open_engine(SandboxConfig())
    except ServiceError as error:
        notes_line(f"without docker: {error.detail}")
        return ["process"]
    await engine.close()
    return list(_KINDS)
