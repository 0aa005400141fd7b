"""``sandbox-service trajectories``: show recorded episodes, export them as datasets, remove old ones."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from sandbox_client import RetryPolicy, SandboxClient
from sandbox_service.trajectories import reader
from sandbox_service.trajectories.export import FileFormat, export
from sandbox_service.trajectories.reader import InstanceFilter
from sandbox_service.trajectories.redaction import Redaction, RedactionError
from sandbox_service.trajectories.rows import ExportFilter, Rows
from sandbox_service.trajectories.view import outcome_of, trajectory_of

from .opened_store import StoreConfigOption, Url, opened_store
from .options import ApiKeyOption, JsonOption, http_address
from .terminal import WRONG, check_named, explained, fail, notes, results, write_json
from .times import EXAMPLES, unix_time
from .trajectories_prune import prune_episodes
from .trajectory_view import instance_tree, instances_list, trajectory_panels
from .unknown_names import unrecorded_environment

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from sandbox_contract.inspection import InstanceTrajectory


_SHORT = 2000

Server: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--server",
        "-s",
        metavar="URL",
        help="Read from this running service instead of the store.",
        callback=http_address,
    ),
]
Environment: TypeAlias = Annotated[str | None, typer.Option(help="Only this environment.")]
Tenant: TypeAlias = Annotated[str | None, typer.Option(help="Only this tenant.")]
Since: TypeAlias = Annotated[
    float | None,
    typer.Option(parser=unix_time, metavar="TIME", help=f"Created at this time or later: {EXAMPLES}."),
]
Until: TypeAlias = Annotated[
    float | None,
    typer.Option(parser=unix_time, metavar="TIME", help=f"Created before this time: {EXAMPLES}."),
]
Success: TypeAlias = Annotated[
    bool | None, typer.Option("--success/--failure", help="Only graded episodes that were solved, or not.")
]
MinReward: TypeAlias = Annotated[float | None, typer.Option(help="Only episodes with at least this reward.")]
Output: TypeAlias = Annotated[Path, typer.Option("--output", "-o", dir_okay=False, help="The file to write.")]
Format: TypeAlias = Annotated[
    FileFormat | None,
    typer.Option("--format", "-f", help="Format of the file; default: parquet for .parquet, else jsonl."),
]
RowsOption: TypeAlias = Annotated[Rows, typer.Option("--rows", help="One row per episode or per event.")]
Redact: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PATTERN",
        help="Replace what matches this regular expression with \\[redacted], in all texts; may be repeated. "
        "It runs on this machine, and the export fails if it takes longer than ten seconds for one text.",
    ),
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


def build() -> typer.Typer:
    """Build the sub-commands."""
    cli = typer.Typer(
        help="Show recorded episodes, export them as datasets, remove old ones.", no_args_is_help=True
    )
    cli.command("show")(show)
    cli.command("list")(list_episodes)
    cli.command("export")(export_episodes)
    cli.command("prune")(prune_episodes)
    return cli


def show(
    instance_id: Annotated[str, typer.Argument(help="The instance, live or ended.")],
    config: StoreConfigOption = None,
    url: Url = None,
    server: Server = None,
    tenant: Tenant = None,
    api_key: ApiKeyOption = None,
    full: Annotated[bool, typer.Option("--full", help="Do not shorten long messages.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show one episode: the conversation, the rewards and the times.

    Example:

        sandbox-service trajectories show s1.8f3a... --server http://127.0.0.1:8080
    """
    if server is not None:
        if tenant is not None or config is not None:
            raise fail("--tenant and --config are for the store: leave them out with --server", WRONG)
        with explained(), SandboxClient(server, api_key, retry=RetryPolicy(attempts=1)) as client:
            trajectory = client.trajectory(instance_id)
    else:
        trajectory = _stored(url, config, instance_id, tenant)
    if as_json:
        write_json(trajectory.model_dump(mode="json"))
    else:
        results().print(trajectory_panels(trajectory, most_characters=None if full else _SHORT))


def list_episodes(
    config: StoreConfigOption = None,
    url: Url = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of episodes.")] = 20,
    environment: Environment = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    as_json: JsonOption = False,
) -> None:
    """List episodes, the latest first.

    Example:

        sandbox-service trajectories list --environment code --since 2026-01-31
    """
    wanted = _instances(environment, tenant, since, until)
    with opened_store(url, config) as engine, engine.connect() as connection:
        found = list(islice(reader.list_instances(connection, wanted, latest_first=True), limit))
        rows = [(one, outcome_of(reader.events_of(connection, one.record.instance_id))) for one in found]
        if not rows:
            _check_recorded(connection, environment)
    if as_json:
        write_json([instance_tree(*row) for row in rows])
    else:
        results().print(instances_list(rows) if rows else "No episodes.", soft_wrap=True)


def export_episodes(
    output: Output,
    wanted_format: Format = None,
    rows: RowsOption = Rows.EPISODES,
    config: StoreConfigOption = None,
    url: Url = None,
    environment: Environment = None,
    tenant: Tenant = None,
    since: Since = None,
    until: Until = None,
    success: Success = None,
    min_reward: MinReward = None,
    redact: Redact = None,
    force: Force = False,
) -> None:
    """Export episodes as JSONL, Parquet, or lines with an ATIF document each.

    The reward of an episode is its score, or the sum of its steps' rewards if it was not graded.

    Example:

        sandbox-service trajectories export -o solved.parquet --success --config service.toml
        sandbox-service trajectories export -o all.atif.jsonl -f atif --redact 'sk-[A-Za-z0-9]+'
    """
    file_format = _format_of(output, wanted_format)
    if file_format is FileFormat.ATIF and rows is Rows.EVENTS:
        raise fail("--format atif has a document for each episode: leave out --rows events", WRONG)
    redaction = _redaction(redact)
    if output.exists() and not force:
        raise fail(f"{output} exists; choose another file, or pass --force to replace it", WRONG)
    wanted = ExportFilter(_instances(environment, tenant, since, until), success, min_reward)
    columns = ("Reading episodes", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with opened_store(url, config) as engine, Progress(*columns, console=notes()) as bar:
        with engine.connect() as connection:
            _check_recorded(connection, environment)
        task = bar.add_task("export", total=None)

        def show_progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        try:
            written = export(engine, output, file_format, rows, wanted, show_progress, redaction)
        except RedactionError as error:
            raise fail(f"--redact: {error}; nothing was written") from error
        except OSError as error:
            raise fail(f"cannot write {output}: {error.strerror or error}") from error
    notes().print(f"{written} {rows.value} written to {output}")


def _check_recorded(connection: Connection, environment: str | None) -> None:
    """Raise Exit for an environment without episodes in a store that has those of others."""
    found = reader.environments_of(connection) if environment is not None else frozenset[str]()
    if environment is not None and found and environment not in found:
        raise fail(unrecorded_environment(environment, found))


def _format_of(output: Path, wanted: FileFormat | None) -> FileFormat:
    """Return the format that is wanted, or that of the file's ending. Raises Exit if they contradict."""
    check_named(output)
    ending = output.suffix.lower()
    found = wanted or (FileFormat.PARQUET if ending == ".parquet" else FileFormat.JSONL)
    if ending in (".parquet", ".jsonl") and (ending == ".parquet") != (found is FileFormat.PARQUET):
        raise fail(f"--format {found.value} does not go with the ending of {output}: change one", WRONG)
    return found


def _redaction(patterns: list[str] | None) -> Redaction | None:
    try:
        return Redaction(patterns) if patterns else None
    except RedactionError as error:
        raise fail(f"--redact: {error}", WRONG) from error


def _stored(url: str | None, config: Path | None, instance_id: str, tenant: str | None) -> InstanceTrajectory:
    with opened_store(url, config) as engine, engine.connect() as connection:
        found = [each.record for each in reader.instances_named(connection, instance_id)]
        if not found:
            raise fail(f"unknown instance {instance_id}; `trajectories list` shows the latest", WRONG)
        chosen = [record for record in found if tenant in (None, record.tenant)]
        if len(chosen) != 1:
            tenants = (record.tenant for record in found)
            raise fail(_choice_of_tenants(instance_id, tenant, tenants), WRONG)
        return trajectory_of(chosen[0], reader.events_of(connection, chosen[0].instance_id))


def _choice_of_tenants(instance_id: str, wanted: str | None, found: Iterable[str]) -> str:
    """Return the message for an id that several tenants have, or another one than the wanted."""
    problem = "several tenants have" if wanted is None else f"the tenant {wanted} does not have"
    choices = ", ".join(sorted(found))
    return f"{problem} an instance {instance_id}; choose one that has it with --tenant: {choices}"


def _instances(
    environment: str | None, tenant: str | None, since: float | None, until: float | None
) -> InstanceFilter:
    return InstanceFilter(environment, tenant, since, until)
