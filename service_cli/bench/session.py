"""Runs the chosen suites, each on a service of its own setting, and collects the figures."""

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
from .service import SPARE_BOXES, Setting, running_bench
from .suites import CLIENT, DURABILITY, EPISODES, SUITES, Pools
from .yardstick import running_yardstick

if TYPE_CHECKING:
    from .context import Figures, Sizes
    from .load import Target
    from .variants import Variant


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured."""

    suites: Sequence[str]
    kinds: Sequence[str]
    """Kinds of sandboxes."""
    sizes: Sizes
    variants: Sequence[Variant]
    """Environments of the episode suites."""
    clients: Sequence[int]
    """Numbers of clients of the episode suites."""


def measure(plan: Plan, tell: Callable[[str], None]) -> Figures:
    """The figures of the chosen suites, by kind of sandbox; the machine, and the settings."""
    started = time.monotonic()
    sizes = plan.sizes
    report: Figures = {"machine": describe_machine(), "in_flight": sizes.in_flight, "rounds": sizes.rounds}
    with running_yardstick() as yardstick:
        if CLIENT in plan.suites:
            tell(CLIENT)
            # On asyncio's own loop: a trainer's client has no other.
            report[CLIENT] = asyncio.run(queued_calls(yardstick, sizes))
        for kind in plan.kinds if set(plan.suites) - {CLIENT} else ():
            figures = _of_kind(kind, plan, yardstick, tell)
            if DURABILITY in plan.suites:
                tell(f"{kind}: {DURABILITY}")
                figures[DURABILITY] = measure_durability(kind, sizes, yardstick, tell)
            if EPISODES in plan.suites:
                tell(f"{kind}: {EPISODES}")
                figures[EPISODES] = {
                    variant.name: measure_variant(kind, variant, plan.clients, sizes, yardstick, tell)
                    for variant in plan.variants
                }
            report[kind] = figures
    report["took_s"] = time.monotonic() - started
    return {name: rounded(value) for name, value in report.items()}


def _of_kind(kind: str, plan: Plan, yardstick: Target, tell: Callable[[str], None]) -> Figures:
    figures: Figures = {}
    for pools in Pools:
        suites = {
            name: SUITES[name] for name in SUITES if name in plan.suites and SUITES[name].pools is pools
        }
        if not suites:
            continue
        tell(f"{kind}: starting a service with {pools.value} pools")
        setting = _setting(kind, pools, plan.sizes)
        with running_bench(setting, yardstick, plan.sizes, tell) as (bench, stopping):
            for name, suite in suites.items():
                tell(f"{kind}: {name}")
                figures[name] = uvloop.run(until_stopped(suite.measure(bench), stopping))
    return figures


def _setting(kind: str, pools: Pools, sizes: Sizes) -> Setting:
    per_box = ServiceConfig().sandbox.process_instances_per_box
    most = sizes.docker_instances if kind == "docker" else math.ceil(sizes.code_instances / per_box)
    warm = pools is Pools.WARM
    code = {"min_boxes": SPARE_BOXES if warm else 0, "max_boxes": most + SPARE_BOXES}
    echo = {"min_boxes": 1 if warm else 0, "max_boxes": SPARE_BOXES}
    return Setting(kind, {"code": code, "echo": echo}, {"enabled": ["code", "echo"]})
