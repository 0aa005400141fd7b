"""``sandbox-service node``: run a node of a Ray cluster, and empty it before it ends."""

from __future__ import annotations

import socket
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from sqlalchemy.exc import SQLAlchemyError

from deploy.cluster_address import ClusterAddress
from deploy.fleet_access import FleetUnreachableError, running_fleet
from local_processes.foreground import run_until_stopped
from local_processes.threads import AbandonedError, run_in_thread
from sandbox_service.config.reading import read_config
from sandbox_service.fleet.draining import UnknownNodeError, drain_node, stop_supervisors
from sandbox_service.supervisor.closing import stop_s
from sandbox_service.trajectories.store import supervisors_with_lease

from .options import ConfigOption
from .terminal import explained, fail, notes_line

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig


_CONNECT_S = 30.0
"""Longest time to find the cluster and its supervisors."""


def node(
    command: Annotated[list[str], typer.Argument(help="Command that runs the node and ends with it.")],
    config: ConfigOption = None,
) -> None:
    """Run a node of a cluster; when it is to end, empty it first.

    After SIGTERM or SIGINT this machine takes no new instances. Those of deterministic environments move to
    other nodes, if store.url is a PostgreSQL database, and others may end, for deadline.node_drain_s at most,
    or until the whole cluster ends beside another one with the same database, as in an upgrade on Kubernetes.
    Then the supervisor stops: what is left goes on elsewhere at its next call if it can be rebuilt, and
    answers instance_lost if not. At last the command gets SIGTERM. Allow deadline.node_drain_s + drain_s +
    release_s and another minute before SIGKILL. Settings used: deadline, and as `sandbox-service drain`.

    Example:

        sandbox-service node --config service.toml -- ray start --address=10.0.0.1:6379 --block
    """
    with explained():
        resolved = read_config(config, [])
    cluster = ClusterAddress.of(resolved)
    try:
        with cluster.watched():
            code = run_until_stopped(command, lambda: _empty(resolved, cluster))
    except OSError as error:
        raise fail(f"cannot run {command[0]}: {error.strerror}") from error
    raise typer.Exit(code)


def _empty(config: ServiceConfig, cluster: ClusterAddress) -> None:
    """Drain this machine and stop its supervisors. A failure is reported, since the node ends in any case."""
    longest_s = _CONNECT_S + config.deadline.node_drain_s + stop_s(config.deadline)
    try:
        # In a thread, since Ray may wait for ever for a cluster that is gone.
        drain = partial(_drain_and_stop, config, cluster)
        run_in_thread(drain, name="drain the node", timeout_s=longest_s)
    except (UnknownNodeError, FleetUnreachableError, AbandonedError) as error:
        notes_line(f"the node was not emptied: {error}")
    except Exception as error:  # noqa: BLE001  # capture point: whatever it is must not keep the node
        notes_line(f"the node was not emptied: {type(error).__name__}: {error}")


def _drain_and_stop(config: ServiceConfig, cluster: ClusterAddress) -> None:
    host = socket.gethostname()
    with running_fleet(config, cluster.current()) as fleet:
        others = partial(_supervisors_of_store, config.store.url)
        drained = drain_node(fleet, host, config.deadline.node_drain_s, notes_line, store_supervisors=others)
        if late := stop_supervisors(fleet, drained.supervisors):
            notes_line(f"{late} supervisors did not stop in time")


def _supervisors_of_store(url: str) -> Collection[str]:
    """Return the supervisors that use the store now; none of a file, or if the database does not answer."""
    if url.startswith("sqlite"):
        return ()
    try:
        return supervisors_with_lease(url)
    except (SQLAlchemyError, OSError):
        return ()
