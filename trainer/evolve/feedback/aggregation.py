"""Aggregate the feedback of several sources to one value; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

Values: TypeAlias = Sequence[float | None]
"""The values that the sources gave an episode, in their order; None for a source without feedback."""


def _complete(values: Values) -> list[float] | None:
    given = [value for value in values if value is not None]
    return given if len(given) == len(values) else None


def mean(values: Values, weights: Sequence[float]) -> float | None:
    """Return the mean of all sources; None unless each has given feedback."""
    given = _complete(values)
    return None if given is None else sum(given) / len(given)


def least(values: Values, weights: Sequence[float]) -> float | None:
    """Return the value of the most critical source; None unless each has given feedback."""
    given = _complete(values)
    return None if given is None else min(given)


def weighted(values: Values, weights: Sequence[float]) -> float | None:
    """Return the weighted mean of all sources; None unless each has given feedback."""
    given = _complete(values)
    if given is None:
        return None
    return sum(value * weight for value, weight in zip(given, weights, strict=True)) / sum(weights)


def first(values: Values, weights: Sequence[float]) -> float | None:
    """Return the value of the first source that has given feedback; None without any."""
    return next((value for value in values if value is not None), None)


AGGREGATIONS: Mapping[str, Callable[[Values, Sequence[float]], float | None]] = {
    "mean": mean,
    "min": least,
    "weighted": weighted,
    "first": first,
}
