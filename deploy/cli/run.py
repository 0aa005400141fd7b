"""``sandbox-service run``: a fixed policy over the tasks of a split, with progress and a summary."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from clients import AsyncSandboxClient, ClientLimits, SandboxError, TransportError
from clients.errors import Failure
from deploy.config_file import read_config
from deploy.policy_runs.display import summary_view
from deploy.policy_runs.player import PolicyRun
from deploy.policy_runs.policies import EmptyPolicy, Policy, PolicyError, ReferencePolicy, read_script
from sandbox_service.contract.problems import FailureClass
from sandbox_service.environments.registry import build_registry

from .options import DEFAULT_SERVER, ApiKeyOption, ConfigOption, JsonOption, ServerOption
from .terminal import explained, notes, results, write_json
from .trajectory_view import trajectory_panels

if TYPE_CHECKING:
    from deploy.policy_runs.outcomes import EpisodeOutcome
    from sandbox_service.config import ServiceConfig
    from sandbox_service.contract.inspection import Trajectory

__all__ = ["PolicyName", "make_policy", "run", "run_policy"]


_SHORT = 2000
_COUNTED = {"solved": "solved", "not solved": "missed", "no verdict": "failed"}


class PolicyName(StrEnum):
    """Policies without a model."""

    REFERENCE = "reference"
    EMPTY = "empty"
    SCRIPT = "script"


def run(
    env: Annotated[str, typer.Option("--env", "-e", help="The environment.")] = "code",
    split: Annotated[
        list[str] | None, typer.Option(help="A split, or several; the environment's default when missing.")
    ] = None,
    policy: Annotated[
        PolicyName, typer.Option(help="What acts; a script comes from --script.")
    ] = PolicyName.REFERENCE,
    script: Annotated[
        Path | None,
        typer.Option(help='JSONL of {"task_id": ..., "messages": [...]}.', exists=True, dir_okay=False),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-n", min=1, help="Episodes at a time.")] = 32,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many tasks.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Show one trajectory at the end.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    api_key: ApiKeyOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a policy without a model over a split, through the API, and sum up.

    The exit code is 1 when an episode ended without a verdict: the infrastructure failed, not the policy.

    Examples:

        sandbox-service run --env code --split easy --concurrency 32 --show

        sandbox-service run --env code --policy empty

        sandbox-service run --env code --policy script --script actions.jsonl --json
    """
    with explained():
        acting = make_policy(policy, env, script, read_config(config))
        limits = ClientLimits(in_flight=max(64, concurrency), creating=concurrency)
        played = PolicyRun(env, tuple(split or ()), policy.value, acting, concurrency)
        try:
            shown = asyncio.run(run_policy(played, server, api_key, limits, limit=limit, show=show))
        except KeyboardInterrupt:
            notes().print("interrupted; what was finished:")
            shown = None
    report(played, shown, as_json=as_json)
    if played.summary().failures:
        raise typer.Exit(1)


def make_policy(name: PolicyName, env: str, script: Path | None, config: ServiceConfig) -> Policy:
    """The policy of a name. Raises PolicyError, ServiceError."""
    if (name is PolicyName.SCRIPT) != (script is not None):
        raise PolicyError("--policy script and --script FILE belong together")
    if script is not None:
        return read_script(script)
    if name is PolicyName.EMPTY:
        return EmptyPolicy()
    return ReferencePolicy(build_registry(config.environments).catalog(env))


async def run_policy(
    played: PolicyRun,
    server: str,
    api_key: str | None,
    limits: ClientLimits,
    *,
    limit: int | None = None,
    show: bool = False,
) -> Trajectory | None:
    """Play the split with a progress bar; one trajectory when asked for."""
    client = AsyncSandboxClient(server, api_key, limits=limits, observer=played.recorder)
    async with client:
        if not await client.healthy():
            raise TransportError(
                Failure(f"nobody answers at {server}", "transport_error", FailureClass.SANDBOX)
            )
        task_ids = await played.choose(client)
        with _progress() as progress:
            bar = progress.add_task(played.name, total=len(task_ids[:limit]), solved=0, missed=0, failed=0)
            counts = {"solved": 0, "missed": 0, "failed": 0}

            def advance(outcome: EpisodeOutcome) -> None:
                counts["failed" if outcome.failed else "solved" if outcome.success else "missed"] += 1
                progress.advance(bar)
                progress.tasks[bar].fields.update(counts)

            await played.play(client, task_ids[:limit], advance)
        return await _trajectory(client, played) if show else None


def _progress() -> Progress:
    fields = (f"{text} {{task.fields[{name}]}}" for text, name in _COUNTED.items())
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(", ".join(fields)),
    )
    return Progress(*columns, TimeElapsedColumn(), console=notes())


async def _trajectory(client: AsyncSandboxClient, played: PolicyRun) -> Trajectory | None:
    """Of the longest graded episode: it shows most."""
    graded = [outcome for outcome in played.outcomes if outcome.instance_id and outcome.failed is None]
    if not graded:
        return None
    longest = max(graded, key=lambda outcome: outcome.steps)
    try:
        return await client.trajectory(longest.instance_id or "")
    except SandboxError as error:
        notes().print(f"no trajectory to show: {error}", markup=False)
        return None


def report(played: PolicyRun, shown: Trajectory | None, *, as_json: bool) -> None:
    """Print a run as tables, or as JSON."""
    summary = played.summary()
    if as_json:
        body = asdict(summary) | {
            "episodes_per_s": summary.episodes_per_s,
            "episodes": [asdict(outcome) for outcome in played.outcomes],
            "trajectory": shown.model_dump(mode="json") if shown else None,
        }
        write_json(body)
        return
    results().print(summary_view(summary, played.outcomes))
    if shown is not None:
        results().print(trajectory_panels(shown, most_characters=_SHORT))
