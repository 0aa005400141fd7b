"""``sandbox-service drain``: empty a node of a cluster before it goes."""

from __future__ import annotations

import socket
from collections.abc import Collection
from typing import Annotated

import typer

from deploy.fleet_access import FleetUnreachableError, running_fleet
from sandbox_service.config.reading import read_config
from sandbox_service.fleet.draining import (
    DrainResult,
    Fleet,
    UnknownNodeError,
    cancel_drain,
    drain_node,
    replace_supervisors,
)

from .options import ConfigOption, OverridesArgument
from .terminal import explained, fail, notes_line, results


def drain(
    node: Annotated[
        str | None,
        typer.Argument(
            help="Host name, IP address or Ray id of the node, or a supervisor; default: this one."
        ),
    ] = None,
    overrides: OverridesArgument = None,
    config: ConfigOption = None,
    timeout: Annotated[
        float,
        typer.Option(min=0, help="Seconds to wait until the node is empty; the drain goes on after it."),
    ] = 3600.0,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Let a node that was drained take instances again.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Then start a new supervisor, configured as the gateways are.")
    ] = False,
) -> None:
    """Have a node of the cluster take no new instances, and wait until those that it has are gone.

    Instances of deterministic environments move to other nodes, between two of their calls, if store.url is a
    PostgreSQL database. All others stay until they end. Afterwards the node can be stopped, and nothing is
    lost. With --replace it gets a new supervisor instead, also when the time is over: what is left then goes
    on at its next call if it can be rebuilt, and answers instance_lost if not. Settings used: fleet.address,
    fleet.name or server.port, deadline, and fleet.start_timeout_s. Exit code 1: the time is over, and
    instances are left or a supervisor of the node does not answer, or none came.

    Examples:

        sandbox-service drain

        sandbox-service drain worker-7 --timeout 600 && ssh worker-7 ray stop

        sandbox-service drain worker-7 --cancel

        sandbox-service drain worker-7 --replace
    """
    if cancel and replace:
        raise fail("--cancel and --replace exclude each other", code=2)
    chosen, settings = _node_and_settings(node, overrides)
    with explained():
        resolved = read_config(config, settings)
    try:
        with running_fleet(resolved) as fleet:
            if cancel:
                cancel_drain(fleet, chosen)
                results().print(f"{chosen} takes instances again", markup=False)
                return
            result = drain_node(fleet, chosen, timeout, notes_line, replace=replace)
            if replace:
                _replace(fleet, chosen, result.supervisors, resolved.fleet.start_timeout_s)
                return
    except (UnknownNodeError, FleetUnreachableError) as error:
        raise fail(str(error), code=2) from error
    _report(chosen, result, timeout)


def _report(node: str, result: DrainResult, timeout_s: float) -> None:
    if not result.is_empty:
        raise fail(
            f"{node} after {timeout_s:g} s: {result.rest}. It still drains: wait, or stop it and lose what "
            "cannot be rebuilt"
        )
    results().print(f"{node} is empty", markup=False)


def _replace(fleet: Fleet, node: str, supervisors: Collection[str], timeout_s: float) -> None:
    if not replace_supervisors(fleet, supervisors, timeout_s):
        raise fail(f"no gateway has started a supervisor on {node} again")
    results().print(f"{node} has a new supervisor", markup=False)


def _node_and_settings(node: str | None, overrides: list[str] | None) -> tuple[str, list[str]]:
    """Return the node, by default this one; the first word may be a setting, since a node has no ``=``."""
    settings = list(overrides or [])
    if node is not None and "=" in node:
        return socket.gethostname(), [node, *settings]
    return node or socket.gethostname(), settings
