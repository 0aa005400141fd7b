"""Numbers for JSON, which has no NaN and no infinity."""

from __future__ import annotations

import math


def finite(value: object) -> object:
    """Return a tree of dicts, lists and plain values with null in place of numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value
