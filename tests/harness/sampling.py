"""Sample suites' parameters, except of the suites that CONFORMANCE_PARTS or CONFORMANCE_FULL=1 wants whole.

CI names the parts that a branch changes (``scripts/changed_environments.py --parts``); the others run for a
representative sample of their parameters.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TypeVar

__all__ = ["is_whole", "sampled"]

T = TypeVar("T")


def is_whole(part: str) -> bool:
    """Whether a part's tests run with all parameters."""
    return (
        os.environ.get("CONFORMANCE_FULL") == "1" or part in os.environ.get("CONFORMANCE_PARTS", "").split()
    )


def sampled(part: str, every: Collection[T], sample: Collection[T]) -> list[T]:
    """The parameters of a part's tests, in the order of ``every``."""
    if unknown := [each for each in sample if each not in every]:
        raise ValueError(f"{part}: the sample has {unknown}, which are no parameters")
    return [each for each in every if is_whole(part) or each in sample]
