"""The Ray cluster under a service: one of our own on this machine, or one that runs already.

A cluster of our own has token authentication with a token that only this run knows, sends no usage
statistics, keeps its files in a short private folder, and leaves neither processes nor files behind.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from local_processes.descendants import Descendants
from local_processes.readiness import NotReadyError
from local_processes.run_folder import run_folder
from local_processes.waiting import Deadline

from .haproxy import find_haproxy, front_environment

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig


MARKER = "SANDBOX_SERVICE_RUN"
"""Set in the environment of the cluster's processes, by which they are found at the end."""
HEART = frozenset({"gcs_server", "raylet"})
"""The processes without which there is no cluster."""
STARTS = 4
"""Most attempts to start Ray."""
END_TIMEOUT_S = 5.0
"""How long the cluster's processes may take to end by themselves."""

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def ray_cluster(config: ServiceConfig, *, show_logs: bool = False) -> Iterator[Callable[[], bool]]:
    """Be connected to the cluster that the configuration names while the block runs.

    Gives a function that tells whether the cluster is still there.
    """
    if config.fleet.address is not None:
        with _joined(config.fleet.address, show_logs=show_logs):
            yield lambda: True
    else:
        with _own(config, show_logs=show_logs) as alive:
            yield alive


@contextlib.contextmanager
def _joined(address: str, *, show_logs: bool) -> Iterator[None]:
    import ray

    ray.init(address=address, log_to_driver=show_logs, configure_logging=False)
    try:
        yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _own(config: ServiceConfig, *, show_logs: bool) -> Iterator[Callable[[], bool]]:
    run = secrets.token_hex(8)
    family = Descendants(MARKER, run)
    with (
        run_folder() as folder,
        _authentication(node_variables(config, folder, on_loopback=True)),
        family.adopting(),
    ):
        try:
            start_in_time(config, folder, family, run, show_logs=show_logs)
            yield lambda: {process.name for process in family.alive()} >= HEART
        finally:
            family.alive()
            _shut_down()
            killed = family.end(END_TIMEOUT_S)
            if killed:
                logger.warning("killed what was left of Ray: %s", ", ".join(one.name for one in killed))


def start_in_time(
    config: ServiceConfig, folder: Path, family: Descendants, run: str, *, show_logs: bool
) -> None:
    """Start Ray, again while there is time: it gives a node 30 s, which a busy machine may not have."""
    deadline = Deadline.after(config.fleet.start_timeout_s)
    for attempt in itertools.count(1):
        try:
            # Only while Ray starts, since whatever else this process starts is not ours to end.
            with _environment({MARKER: run}), _on_loopback():
                _start(config, folder, show_logs=show_logs)
        except NotReadyError as error:
            family.alive()
            _shut_down()
            family.end(0.0)
            if deadline.passed or attempt == STARTS:
                raise NotReadyError(
                    f"{error} ({attempt} attempts; if this machine is busy, try again, or give it longer: "
                    f"fleet.start_timeout_s is {deadline.timeout_s:g})"
                ) from error
            logger.warning("%s; starting it again", error)
        else:
            return


def _start(config: ServiceConfig, folder: Path, *, show_logs: bool) -> None:
    import ray

    try:
        ray.init(
            address="local",
            include_dashboard=config.fleet.dashboard,
            object_store_memory=config.fleet.object_store_mib * 1024 * 1024,
            log_to_driver=show_logs,
            configure_logging=False,
            _temp_dir=str(folder),
        )
    except ValueError:
        raise  # An argument is wrong, and will be the next time.
    except Exception as error:  # Ray tells by a plain Exception that it was not up in time
        raise NotReadyError(f"Ray did not start: {error}") from error


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Have Ray give the node the address 127.0.0.1, so that none of its ports is open to other machines.

    Ray replaces a loopback address that it is given by the machine's own. Where clusters of several nodes
    are switched off it does not; it has read that variable if this process has imported it.
    """
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _shut_down() -> None:
    import ray

    ray.shutdown()


@contextlib.contextmanager
def _authentication(variables: Mapping[str, str]) -> Iterator[None]:
    """Have this process talk to Ray by the variables, and as before when the block ends.

    Ray keeps the mode and the token that it read first. A process that ran one cluster with a token and
    then one without would refuse the calls of the second, which takes its actors for abandoned.
    """
    try:
        with _environment(variables):
            _read_token_again()
            yield
    finally:
        _read_token_again()


def _read_token_again() -> None:
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def node_variables(config: ServiceConfig, folder: Path, *, on_loopback: bool) -> dict[str, str]:
    """Variables for all of a node's Ray processes; writes the files that they name to a private folder.

    A token that is there is kept: the nodes of a cluster share it. ``on_loopback`` opens none of Ray's ports
    to other machines, so that there is one node.
    """
    token = folder / "token"
    if not token.exists():
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
    variables = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        # Serve ends its controller in the middle of a call, which Ray reports on standard output.
        "RAY_DEDUP_LOGS_SKIP_REGEX": "ServeController.graceful_shutdown failed",
        # Serve kills a front that is not ready after 5 s, and fails with it: too soon on a busy machine.
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60",
    }
    if on_loopback:
        # The processes that Ray starts ask for the node's address as well: see _on_loopback.
        variables["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    binary = find_haproxy() if config.server.haproxy else None
    if binary is not None:
        variables |= front_environment(config, binary, folder)
    return variables


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have the variables in this process's environment, which the processes it starts inherit."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
