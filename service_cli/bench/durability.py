"""The suite of durability: the same steps in both modes of the store.

Each mode is measured twice on services of its own, alternating, since the machine's speed changes, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import uvloop

from local_processes.stoppable import until_stopped
from sandbox_service.config import Durability

from .context import medians
from .service import SPARE_BOXES, ServiceSetting, running_bench
from .steps import noop_steps

if TYPE_CHECKING:
    from .context import Figures, Sizes
    from .load import Target


_PASSES = 2
_LOAD = "load_generator"


def measure_durability(kind: str, sizes: Sizes, yardstick: Target, report: Callable[[str], None]) -> Figures:
    """Return no-op steps by mode, and what ``acknowledged`` costs as a ratio to ``fast``."""
    passes: list[Figures] = []
    modes: dict[str, Figures] = {}
    for _ in range(_PASSES):
        for mode in Durability:
            report(f"    {mode.value}")
            modes[mode.value] = _steps(kind, mode, sizes, yardstick, report)
        passes.append(_ratios(modes, sizes))
    return {**modes, "acknowledged_to_fast": medians(passes)}


def _steps(
    kind: str, mode: Durability, sizes: Sizes, yardstick: Target, report: Callable[[str], None]
) -> Figures:
    boxes = {"echo": {"min_boxes": 1, "max_boxes": SPARE_BOXES}}
    setting = ServiceSetting(kind, boxes, {"enabled": ["echo"]}, {"durability": mode.value})
    with running_bench(setting, yardstick, sizes, report) as (bench, stopping):
        return uvloop.run(until_stopped(noop_steps(bench), stopping))


def _ratios(modes: dict[str, Figures], sizes: Sizes) -> Figures:
    """Compare times as multiples of the yardstick."""
    waiting, fast = modes[Durability.ACKNOWLEDGED], modes[Durability.FAST]
    level = f"at_{sizes.in_flight}"
    return {
        "cpu": _server_cpu_ms(waiting) / _server_cpu_ms(fast),
        "p50_sequential": _number(waiting, "sequential", "ratio_p50")
        / _number(fast, "sequential", "ratio_p50"),
        f"p50_{level}": _number(waiting, level, "ratio_p50") / _number(fast, level, "ratio_p50"),
        f"requests_per_s_{level}": _number(fast, level, "ratio_requests_per_s")
        / _number(waiting, level, "ratio_requests_per_s"),
    }


def _server_cpu_ms(figures: Figures) -> float:
    parts = cast("dict[str, float]", figures["cpu_ms_per_request"])
    return sum(ms for part, ms in parts.items() if part != _LOAD)


def _number(figures: Figures, part: str, name: str) -> float:
    return cast("dict[str, float]", figures[part])[name]
