"""What it costs that answers wait for the commit of their records: the same steps in both modes of the store.

Each mode is measured on services of its own, one after the other and again, since the machine changes too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import uvloop

from local_processes.stoppable import until_stopped
from sandbox_service.config import Durability

from .context import beside
from .service import SPARE_BOXES, Setting, running_bench
from .steps import noop_steps

if TYPE_CHECKING:
    from .context import Figures, Sizes
    from .load import Target


_PASSES = 2
_LOAD = "load_generator"


def measure_durability(kind: str, sizes: Sizes, yardstick: Target, tell: Callable[[str], None]) -> Figures:
    """Return no-op steps by mode, and what ``acknowledged`` costs as a ratio to ``fast``."""
    passes: list[Figures] = []
    modes: dict[str, Figures] = {}
    for _ in range(_PASSES):
        for mode in Durability:
            tell(f"    {mode.value}")
            modes[mode.value] = _steps(kind, mode, sizes, yardstick, tell)
        passes.append(_ratios(modes, sizes))
    return {**modes, "acknowledged_to_fast": beside(passes)}


def _steps(
    kind: str, mode: Durability, sizes: Sizes, yardstick: Target, tell: Callable[[str], None]
) -> Figures:
    boxes = {"echo": {"min_boxes": 1, "max_boxes": SPARE_BOXES}}
    setting = Setting(kind, boxes, {"enabled": ["echo"]}, {"durability": mode.value})
    with running_bench(setting, yardstick, sizes, tell) as (bench, stopping):
        return uvloop.run(until_stopped(noop_steps(bench), stopping))


def _ratios(modes: dict[str, Figures], sizes: Sizes) -> Figures:
    """Times are compared as multiples of the yardstick beside them."""
    waiting, fast = modes[Durability.ACKNOWLEDGED], modes[Durability.FAST]
    lanes = f"at_{sizes.in_flight}"
    return {
        "cpu": _server_cpu_ms(waiting) / _server_cpu_ms(fast),
        "p50_sequential": _number(waiting, "sequential", "ratio_p50")
        / _number(fast, "sequential", "ratio_p50"),
        f"p50_{lanes}": _number(waiting, lanes, "ratio_p50") / _number(fast, lanes, "ratio_p50"),
        f"requests_per_s_{lanes}": _number(fast, lanes, "ratio_requests_per_s")
        / _number(waiting, lanes, "ratio_requests_per_s"),
    }


def _server_cpu_ms(figures: Figures) -> float:
    parts = cast("dict[str, float]", figures["cpu_ms_per_request"])
    return sum(ms for part, ms in parts.items() if part != _LOAD)


def _number(figures: Figures, part: str, name: str) -> float:
    return cast("dict[str, float]", figures[part])[name]
