"""Compare the results of two queries. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence

Row = Sequence[object]
_TOLERANCE = 1e-6
"""Relative difference of numbers that count as equal; sums depend on the order of their terms."""


def same_rows(found: Sequence[Row], expected: Sequence[Row], *, ordered: bool) -> bool:
    """Return whether results are equal: columns in order, rows in order only where the question says so."""
    if len(found) != len(expected):
        return False
    if not ordered:
        found, expected = sorted(found, key=_key), sorted(expected, key=_key)
    return all(_same_row(left, right) for left, right in zip(found, expected, strict=True))


def _same_row(left: Row, right: Row) -> bool:
    return len(left) == len(right) and all(_same(*pair) for pair in zip(left, right, strict=True))


def _same(left: object, right: object) -> bool:
    if isinstance(left, int | float) and isinstance(right, int | float):
        return math.isclose(left, right, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return type(left) is type(right) and left == right


def _key(row: Row) -> tuple[tuple[int, float, str], ...]:
    """Return what rows are sorted by; numbers that count as equal are sorted alike."""
    return tuple(
        (1, float(f"{cell:.5g}"), "") if isinstance(cell, int | float) else (0, 0.0, repr(cell))
        for cell in row
    )
