"""A service for a measurement: everything on, in a folder of its own, gone at the end."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from deploy.preparation import prepared
from deploy.serve_app import run_service
from local_processes.ports import free_port
from local_processes.stoppable import until_stopped
from sandbox_service.config import ServiceConfig

from .context import Bench
from .instances import settle
from .load import Target

if TYPE_CHECKING:
    import threading

    from .context import Sizes


SPARE_BOXES = 2
"""Boxes beyond those that the load fills, for the time in which one is cleaned or replaced."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What differs between the services that are measured."""

    kind: str
    """Kind of the sandboxes."""
    pools: Mapping[str, object]
    environments: Mapping[str, object]
    store: Mapping[str, object] = field(default_factory=dict)


@contextmanager
def running_bench(
    setting: Setting, yardstick: Target, sizes: Sizes, tell: Callable[[str], None]
) -> Iterator[tuple[Bench, threading.Event]]:
    """A service that is up and quiet, and the event that is set when the process is told to end."""
    key = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        config = prepared(_config(setting, key, Path(folder)), tell)
        with run_service(config) as service:
            target = Target.of(service.url, key)
            uvloop.run(until_stopped(settle(target, str(next(iter(setting.pools)))), service.stopping))
            yield Bench(target, yardstick, sizes, setting.kind, tell), service.stopping


def _config(setting: Setting, key: str, folder: Path) -> ServiceConfig:
    """A service with everything on: keys, idempotency, trajectories, leases."""
    return ServiceConfig.model_validate(
        {
            "server": {"port": free_port(), "api_keys": {sha256(key.encode()).hexdigest(): "bench"}},
            "sandbox": {"kind": setting.kind},
            "pools": setting.pools,
            "store": {"url": f"sqlite:///{folder / 'trajectories.sqlite'}", **setting.store},
            "lease": {"idle_timeout_s": 3600.0},
            "environments": setting.environments,
        }
    )
