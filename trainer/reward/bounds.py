"""The bound of all that rewards and costs are made of: environments and models may give any finite number."""

from __future__ import annotations

GREATEST = 1e15
"""Greatest magnitude: samples hold rewards as float32, in which even the sum of the squares of a batch's
rewards is finite up to here.
"""


def held(value: float) -> float:
    """Return a value within the bound."""
    return min(max(value, -GREATEST), GREATEST)
