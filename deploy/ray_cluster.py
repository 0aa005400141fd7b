"""The Ray cluster under a service: one of our own on this machine, or one that runs already.

A cluster of our own has token authentication with a token that only this run knows, sends no usage
statistics, keeps its files in a short private folder, and leaves neither processes nor files behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
from typing import TYPE_CHECKING

from .descendants import Descendants
from .haproxy import find_haproxy, front_environment
from .readiness import NotReadyError
from .run_folder import run_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from sandbox_service.config import ServiceConfig

__all__ = ["ray_cluster"]

MARKER = "SANDBOX_SERVICE_RUN"
"""Set in the environment of the cluster's processes, by which they are found at the end."""
HEART = frozenset({"gcs_server", "raylet"})
"""The processes without which there is no cluster."""
END_PATIENCE_S = 5.0
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
    with run_folder() as folder, _authentication(_variables(config, folder)), family.adopting():
        try:
            # Only while Ray starts, since whatever else this process starts is not ours to end.
            with _environment({MARKER: run}):
                _start(config, folder, show_logs=show_logs)
            yield lambda: {process.name for process in family.alive()} >= HEART
        finally:
            family.alive()
            _shut_down()
            killed = family.end(END_PATIENCE_S)
            if killed:
                logger.warning("killed what was left of Ray: %s", ", ".join(one.name for one in killed))


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
    except Exception as error:  # Ray tells by a plain Exception that it was not up in time
        raise NotReadyError(f"Ray did not start: {error}") from error


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


def _variables(config: ServiceConfig, folder: Path) -> dict[str, str]:
    token = folder / "token"
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
