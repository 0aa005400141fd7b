"""Format numbers for display."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.evaluate.intervals import Interval
    from trainer.evaluate.results import EvaluationResult


_BLOCKS = "▁▂▃▄▅▆▇█"


def percent(share: float) -> str:
    """Format ``0.624`` as ``62%``."""
    return f"{100 * share:.0f}%"


def rate_text(rate: float | None) -> str:
    """Format a success rate; None is that of episodes without a verdict."""
    return "no verdict" if rate is None else percent(rate)


def interval_text(interval: Interval) -> str:
    """Format a share's interval as ``55 to 68%``."""
    return f"{100 * interval.low:.0f} to {100 * interval.high:.0f}%"


def success_interval_text(result: EvaluationResult) -> str:
    """Format the interval of a success rate; empty where no episode has a verdict."""
    return interval_text(result.interval) if result.episodes else ""


def clock_text(seconds: float) -> str:
    """Format ``3725`` seconds as ``1:02:05``."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def sparkline(values: Iterable[float]) -> str:
    """Draw a block for each value, scaled from the least to the greatest."""
    shown = [value for value in values if math.isfinite(value)]
    if len(shown) < 2:
        return ""
    low, high = min(shown), max(shown)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((value - low) * scale)] for value in shown)
