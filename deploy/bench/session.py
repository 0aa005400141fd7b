"""Runs the chosen suites, each on a service of its own setting, and collects the figures."""

from __future__ import annotations

import asyncio
import math
import secrets
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from deploy.free_port import free_port
from deploy.preparation import prepared
from deploy.serve_app import run_service
from deploy.stoppable import until_stopped
from sandbox_service.config import ServiceConfig

from .client import queued_calls
from .context import Bench, rounded
from .instances import settle
from .load import Target
from .machine import describe_machine
from .suites import CLIENT, SUITES, Pools
from .yardstick import running_yardstick

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .context import Figures, Sizes

__all__ = ["measure"]

_SPARE_BOXES = 2


def measure(
    chosen: Sequence[str], kinds: Sequence[str], sizes: Sizes, tell: Callable[[str], None]
) -> Figures:
    """The figures of the chosen suites, by kind of sandbox; the machine, and the settings."""
    started = time.monotonic()
    report: Figures = {"machine": describe_machine(), "in_flight": sizes.in_flight, "rounds": sizes.rounds}
    with running_yardstick() as yardstick:
        if CLIENT in chosen:
            tell(CLIENT)
            # On asyncio's own loop: a trainer's client has no other.
            report[CLIENT] = asyncio.run(queued_calls(yardstick, sizes))
        names = [name for name in SUITES if name in chosen]
        for kind in kinds if names else ():
            report[kind] = _of_kind(kind, names, sizes, yardstick, tell)
    report["took_s"] = time.monotonic() - started
    return {name: rounded(value) for name, value in report.items()}


def _of_kind(
    kind: str, names: Sequence[str], sizes: Sizes, yardstick: Target, tell: Callable[[str], None]
) -> Figures:
    figures: Figures = {}
    for pools in Pools:
        suites = {name: SUITES[name] for name in names if SUITES[name].pools is pools}
        if not suites:
            continue
        key = secrets.token_hex(16)
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            tell(f"{kind}: starting a service with {pools.value} pools")
            config = prepared(_config(kind, pools, sizes, key, Path(folder)), tell)
            with run_service(config) as service:
                uvloop.run(until_stopped(settle(Target.of(service.url, key)), service.stopping))
                bench = Bench(Target.of(service.url, key), yardstick, sizes, kind, tell)
                for name, suite in suites.items():
                    tell(f"{kind}: {name}")
                    figures[name] = uvloop.run(until_stopped(suite.measure(bench), service.stopping))
    return figures


def _config(kind: str, pools: Pools, sizes: Sizes, key: str, folder: Path) -> ServiceConfig:
    """A service with everything on: keys, idempotency, trajectories, leases."""
    per_box = ServiceConfig().sandbox.process_instances_per_box
    most = sizes.docker_instances if kind == "docker" else math.ceil(sizes.code_instances / per_box)
    warm = pools is Pools.WARM
    code = {"min_boxes": _SPARE_BOXES if warm else 0, "max_boxes": most + _SPARE_BOXES}
    echo = {"min_boxes": 1 if warm else 0, "max_boxes": _SPARE_BOXES}
    return ServiceConfig.model_validate(
        {
            "server": {"port": free_port(), "api_keys": {sha256(key.encode()).hexdigest(): "bench"}},
            "sandbox": {"kind": kind},
            "pools": {"code": code, "echo": echo},
            "store": {"url": f"sqlite:///{folder / 'trajectories.sqlite'}"},
            "lease": {"idle_timeout_s": 3600.0},
        }
    )
