"""``sandbox-service envs``: list and show environments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from sandbox_client import RetryPolicy, SandboxClient

from .envs_check import check
from .envs_new import new
from .envs_prune import prune
from .envs_references import references
from .envs_setup import setup
from .envs_try import try_out
from .options import DEFAULT_SERVER, ApiKeyOption, JsonOption, ServerOption
from .terminal import WRONG, explained, fail, results, write_json
from .unknown_names import unknown_environment

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sandbox_contract.inspection import Environment


_SPLITS = 6
"""Splits of an environment in the list."""


def build() -> typer.Typer:
    """Build the sub-commands; without one, environments are listed."""
    cli = typer.Typer(
        help="List, show, set up, prune, write, check and try environments; write their solutions.\n\n"
        "Without a command, list the environments of a running service.",
        invoke_without_command=True,
    )
    cli.callback()(envs)
    cli.command("show")(show)
    cli.command("setup")(setup)
    cli.command("prune")(prune)
    cli.command("references")(references)
    cli.command("new")(new)
    cli.command("check")(check)
    cli.command("try")(try_out)
    return cli


def envs(
    context: typer.Context,
    server: ServerOption = DEFAULT_SERVER,
    api_key: ApiKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the environments of a service, with their splits.

    Examples:

        sandbox-service envs

        sandbox-service envs show code
    """
    if context.invoked_subcommand is not None:
        return
    with explained(), SandboxClient(server, api_key, retry=RetryPolicy(attempts=2)) as client:
        found = client.environments()
    if as_json:
        write_json(found.model_dump(mode="json"))
    else:
        results().print(environments_view(found.environments))


def show(
    name: Annotated[str, typer.Argument(help="The environment's name.")],
    server: ServerOption = DEFAULT_SERVER,
    api_key: ApiKeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one environment: splits, tools, capabilities, parameters.

    Example:

        sandbox-service envs show code
    """
    with explained(), SandboxClient(server, api_key, retry=RetryPolicy(attempts=2)) as client:
        found = {environment.name: environment for environment in client.environments().environments}
    if name not in found:
        raise fail(unknown_environment(name, found), WRONG)
    if as_json:
        write_json(found[name].model_dump(mode="json"))
    else:
        results().print(environment_view(found[name]))


def environments_view(environments: Sequence[Environment]) -> RenderableType:
    """Return the description and the splits of each environment, the default split first."""
    table = Table(box=None, show_header=False, padding=(0, 2, 1, 0), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for environment in environments:
        origin = f" [{environment.package}]" if environment.package else ""
        table.add_row(environment.name, Text(f"{environment.description}{origin}\n{_splits(environment)}"))
    return table


def _splits(environment: Environment) -> str:
    """Return the first splits, beginning with the default one."""
    ordered = sorted(environment.splits, key=lambda split: split.name != environment.default_split)
    shown = ", ".join(f"{split.name} {split.size}" for split in ordered[:_SPLITS])
    more = len(ordered) - _SPLITS
    return f"{shown} and {more} more splits (envs show {environment.name})" if more > 0 else shown


def environment_view(environment: Environment) -> RenderableType:
    """Return the whole descriptor of an environment."""
    facts = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column()
    splits = ", ".join(f"{split.name} ({split.size})" for split in environment.splits)
    able = [name.replace("_", " ") for name, has in environment.capabilities.model_dump().items() if has]
    low, high = environment.reward_range
    rows = {
        "splits": f"{splits}; default {environment.default_split}",
        "action": environment.action_format,
        "can": ", ".join(able) or "-",
        "score": f"{low:g} to {high:g}",
        "step limit": str(environment.max_steps),
    }
    if environment.package:
        rows["package"] = environment.package
    for name, value in rows.items():
        facts.add_row(name, value)
    for tool in environment.tools:
        facts.add_row(f"tool {tool.function.name}", tool.function.description)
    if environment.params:
        facts.add_row("params", Text(json.dumps(environment.params, indent=2)))
    return Group(Text(f"{environment.name}: {environment.description}", style="bold"), facts)
