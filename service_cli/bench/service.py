"""Run a service for a measurement, with all features on, in a temporary folder."""

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

from deploy.preparation import prepare_sandboxes
from deploy.serve_app import run_service
from local_processes.ports import free_port
from local_processes.stoppable import until_stopped
from sandbox_service.config import ServiceConfig

from .context import Bench
from .instances import settle
from .load import Target

if TYPE_CHECKING:
    from local_processes.signals import StopRequest

    from .context import Sizes


SPARE_BOXES = 2
"""Boxes beyond those that the load fills, while one is cleaned or replaced."""


@dataclass(frozen=True, slots=True)
class ServiceSetting:
    """The settings that differ between measured services."""

    kind: str
    """Kind of the sandboxes."""
    pools: Mapping[str, object]
    environments: Mapping[str, object]
    store: Mapping[str, object] = field(default_factory=dict)


@contextmanager
def running_bench(
    setting: ServiceSetting, yardstick: Target, sizes: Sizes, report: Callable[[str], None]
) -> Iterator[tuple[Bench, StopRequest]]:
    """Yield a running, idle service, and the event that is set after SIGINT or SIGTERM."""
    key = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        config = prepare_sandboxes(_config(setting, key, Path(folder)), report)
        with run_service(config) as service:
            target = Target.of(service.url, key)
            uvloop.run(until_stopped(settle(target, str(next(iter(setting.pools)))), service.stopping))
            yield Bench(target, yardstick, sizes, setting.kind, report), service.stopping


def _config(setting: ServiceSetting, key: str, folder: Path) -> ServiceConfig:
    """Return the configuration of a service with keys, idempotency, trajectories and leases."""
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
