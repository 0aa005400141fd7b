"""Run the chosen suites, each on a service with its setting, and collect the figures."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import uvloop

from local_processes.stoppable import until_stopped
from sandbox_service.config import ServiceConfig

from .client import queued_calls
from .context import rounded
from .durability import measure_durability
from .environments import measure_variant
from .machine import describe_machine
from .service import SPARE_BOXES, ServiceSetting, running_bench
from .suites import CLIENT, DURABILITY, EPISODES, SUITES, PoolSetting
from .yardstick import running_yardstick

if TYPE_CHECKING:
    from .context import Figures, Sizes
    from .load import Target
    from .variants import Variant


@dataclass(frozen=True, slots=True)
class BenchPlan:
    """The suites to run, and their parameters."""

    suites: Sequence[str]
    kinds: Sequence[str]
    """Kinds of sandboxes."""
    sizes: Sizes
    variants: Sequence[Variant]
    """Environments of the episode suites."""
    clients: Sequence[int]
    """Numbers of clients of the episode suites."""


def measure(plan: BenchPlan, report: Callable[[str], None]) -> Figures:
    """Return the figures of the chosen suites by kind of sandbox, with the machine and the settings."""
    started = time.monotonic()
    sizes = plan.sizes
    result: Figures = {"machine": describe_machine(), "in_flight": sizes.in_flight, "rounds": sizes.rounds}
    with running_yardstick() as yardstick:
        if CLIENT in plan.suites:
            report(CLIENT)
            # On asyncio's own event loop, which a trainer's client uses, too.
            result[CLIENT] = asyncio.run(queued_calls(yardstick, sizes))
        for kind in plan.kinds if set(plan.suites) - {CLIENT} else ():
            figures = _of_kind(kind, plan, yardstick, report)
            if DURABILITY in plan.suites:
                report(f"{kind}: {DURABILITY}")
                figures[DURABILITY] = measure_durability(kind, sizes, yardstick, report)
            if EPISODES in plan.suites:
                report(f"{kind}: {EPISODES}")
                figures[EPISODES] = {
                    variant.name: measure_variant(kind, variant, plan.clients, sizes, yardstick, report)
                    for variant in plan.variants
                }
            result[kind] = figures
    result["took_s"] = time.monotonic() - started
    return {name: rounded(value) for name, value in result.items()}


def _of_kind(kind: str, plan: BenchPlan, yardstick: Target, report: Callable[[str], None]) -> Figures:
    figures: Figures = {}
    for pools in PoolSetting:
        suites = {
            name: SUITES[name] for name in SUITES if name in plan.suites and SUITES[name].pools is pools
        }
        if not suites:
            continue
        report(f"{kind}: starting a service with {pools.value} pools")
        setting = _setting(kind, pools, plan.sizes)
        with running_bench(setting, yardstick, plan.sizes, report) as (bench, stopping):
            for name, suite in suites.items():
                report(f"{kind}: {name}")
                figures[name] = uvloop.run(until_stopped(suite.measure(bench), stopping))
    return figures


def _setting(kind: str, pools: PoolSetting, sizes: Sizes) -> ServiceSetting:
    per_box = ServiceConfig().sandbox.process_instances_per_box
    most = sizes.docker_instances if kind == "docker" else math.ceil(sizes.code_instances / per_box)
    warm = pools is PoolSetting.WARM
    code = {"min_boxes": SPARE_BOXES if warm else 0, "max_boxes": most + SPARE_BOXES}
    echo = {"min_boxes": 1 if warm else 0, "max_boxes": SPARE_BOXES}
    return ServiceSetting(kind, {"code": code, "echo": echo}, {"enabled": ["code", "echo"]})
