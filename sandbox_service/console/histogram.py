"""A histogram of rewards, whose bins are the conditions of a search."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.trajectories.search import EpisodeQuery

    from .search_form import SearchForm


MOST_BINS = 12
_WIDTHS = (1, 2, 2.5, 5, 10, 20)
"""Widths of bins that are easy to read, but for a power of ten."""
_NARROWEST = 1e-12
"""Width of a bin relative to the rewards below which rounding would move rewards between bins."""


@dataclass(frozen=True, slots=True)
class RewardBin:
    """The rewards of a range, to which both ends belong, and the number of episodes with one of them."""

    label: str
    least: float
    most: float
    count: int


@dataclass(frozen=True, slots=True)
class LinkedBin:
    """A bin as a bar that links to its search."""

    label: str
    count: int
    height: float
    """The count in percent of the fullest bin's."""
    url: str
    chosen: bool
    """Whether the search is for a range of rewards that this bin is in."""


def linked_bins(
    rewards: Iterable[float], form: SearchForm, query: EpisodeQuery, before: str
) -> tuple[LinkedBin, ...]:
    """Return the histogram of rewards, with links to the search for each range from the same place on."""
    bins = reward_bins(rewards)
    fullest = max((each.count for each in bins), default=0)
    return tuple(
        LinkedBin(
            each.label,
            each.count,
            round(100 * each.count / fullest, 2),
            form.url(least_reward=_exact(each.least), most_reward=_exact(each.most), before=before),
            _is_wanted(each, query),
        )
        for each in bins
    )


def reward_bins(rewards: Iterable[float]) -> tuple[RewardBin, ...]:
    """Return the bins by rising reward; rewards that are not finite are in none.

    Few different rewards, as most graders give, have a bin each. Otherwise all bins have one width, and each
    but the last ends at the greatest number below the next.
    """
    counts = Counter(reward for reward in rewards if math.isfinite(reward))
    values = sorted(counts)
    if len(values) <= MOST_BINS:
        return tuple(RewardBin(f"{value:.4g}", value, value, counts[value]) for value in values)
    edges = _edges(values[0], values[-1])
    last = len(edges) - 2
    filled: Counter[int] = Counter()
    for value in values:
        filled[min(bisect_right(edges, value) - 1, last)] += counts[value]
    return tuple(
        RewardBin(
            f"{low:.4g} to {high:.4g}",
            low,
            high if place == last else math.nextafter(high, -math.inf),
            filled[place],
        )
        for place, (low, high) in enumerate(pairwise(edges))
    )


def _edges(least: float, most: float) -> Sequence[float]:
    """Return the edges of at most ``MOST_BINS`` bins around a range, multiples of their width."""
    widest = (most - least) / MOST_BINS
    if not math.isfinite(widest) or widest < max(abs(least), abs(most)) * _NARROWEST:
        return (least, most)
    power = 10.0 ** math.floor(math.log10(widest))
    for factor in _WIDTHS:
        width = factor * power
        first, last = math.floor(least / width), math.ceil(most / width)
        if last - first <= MOST_BINS:
            break
    # Rounded, because 3 * 0.1 is not 0.3; then no reward may lie beyond the first or the last edge.
    digits = 2 - math.floor(math.log10(width))
    edges = [round(number * width, digits) for number in range(first, last + 1)]
    return [min(edges[0], least), *edges[1:-1], max(edges[-1], most)]


def _is_wanted(each: RewardBin, query: EpisodeQuery) -> bool:
    """Return whether a query is for rewards among which are all of a bin."""
    least, most = query.least_reward, query.most_reward
    if least is None and most is None:
        return False
    return (least is None or least <= each.least) and (most is None or each.most <= most)


def _exact(value: float) -> str:
    """Return the shortest text that stands for exactly this number."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
