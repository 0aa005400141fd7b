"""Rules that select by value: places in a sequence of values, in order; of equal values the first is better.

Selections of recorded episodes, and of explored ones in an evolution, are made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

_ROUNDING = 1e-9
"""Values are sums and differences of decimals, which floats are not exactly."""


def reaches(value: float, least: float) -> bool:
    """Return whether a value is at least ``least``, up to rounding: 0.7 - 0.2 is at least 0.5."""
    return value >= least - _ROUNDING


def exceeds(value: float, other: float) -> bool:
    """Return whether a value is above another one by more than rounding."""
    return value > other + _ROUNDING


def ranked(values: Sequence[float], places: Sequence[int]) -> list[int]:
    """Return places by descending value; of equal ones the first comes first."""
    return sorted(places, key=lambda place: -values[place])


def at_least(values: Sequence[float], least: float) -> list[int]:
    """Return the places of values from ``least`` on."""
    return [place for place, value in enumerate(values) if reaches(value, least)]


def best_of_each(
    values: Sequence[float], groups: Iterable[Sequence[int]], count: Callable[[int], int]
) -> list[int]:
    """Return the best places of each group; ``count`` gives their number by the size of a group."""
    return sorted(place for group in groups for place in ranked(values, group)[: count(len(group))])


def alike(keys: Iterable[Hashable]) -> list[list[int]]:
    """Return the places of equal keys together."""
    found: dict[Hashable, list[int]] = {}
    for place, key in enumerate(keys):
        found.setdefault(key, []).append(place)
    return [*found.values()]


def softmax_weights(values: Sequence[float], temperature: float) -> list[float]:
    """Return exp(value / temperature) of each value, divided by the mean of all."""
    found = np.array(values)
    # Divided last: the best value stays 0, and by a tiny temperature the others fall to weights of 0.
    with np.errstate(over="ignore"):
        powers = np.exp((found - found.max(initial=-np.inf)) / temperature)
    return [float(weight) for weight in powers / powers.sum() * len(powers)]
