"""Format estimates and counts of evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.evaluate.summary import Estimate, MeanEstimate


def rate_text(rate: float | None) -> str:
    """Format a success rate in percent; None is that of episodes without a verdict."""
    return "no verdict" if rate is None else f"{100 * rate:.1f}%"


def share_text(estimate: Estimate | None) -> str:
    """Format a share and its interval in percent."""
    if estimate is None:
        return "-"
    low, high = 100 * estimate.interval.low, 100 * estimate.interval.high
    return f"{100 * estimate.value:.1f}% ({low:.1f} to {high:.1f})"


def mean_text(estimate: MeanEstimate | None, digits: int) -> str:
    """Format a mean and its interval, if it has one."""
    if estimate is None:
        return "-"
    if estimate.interval is None:
        return f"{estimate.value:.{digits}f}"
    low, high = estimate.interval.low, estimate.interval.high
    return f"{estimate.value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def count_text(total: int, parts: Mapping[str, int]) -> str:
    """Format a count with its parts."""
    listed = counts_text(parts)
    return f"{total} ({listed})" if listed else str(total)


def counts_text(parts: Mapping[str, int]) -> str:
    """Format counts by name."""
    return ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in parts.items())
