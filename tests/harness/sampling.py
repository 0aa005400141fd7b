"""Tests that take long run by sample, except those of what changed; CONFORMANCE_FULL=1 runs all.

CI names the parts and environments that a branch changes (``scripts/changed_environments.py``) in
CONFORMANCE_PARTS and CONFORMANCE_ENVIRONMENTS.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TypeVar

import pytest

T = TypeVar("T")


def is_whole(part: str) -> bool:
    """Whether a part's tests run with all parameters."""
    return _is_named(part, "CONFORMANCE_PARTS")


def where_changed(part: str, beside: str = "") -> pytest.MarkDecorator:
    """A mark of tests that run where their part changes; ``beside`` says what covers them elsewhere."""
    return _skipped_unless(is_whole(part), f"CONFORMANCE_PARTS={part}", beside)


def where_environment_changed(name: str) -> pytest.MarkDecorator:
    """A mark of an environment's tests beside the conformance suite, which it passes in each run."""
    return _skipped_unless(is_environment_whole(name), f"CONFORMANCE_ENVIRONMENTS={name}", "")


def is_environment_whole(name: str) -> bool:
    """Whether an environment's long tests run, too."""
    return _is_named(name, "CONFORMANCE_ENVIRONMENTS")


def sampled(part: str, every: Collection[T], sample: Collection[T]) -> list[T]:
    """The parameters of a part's tests, in the order of ``every``."""
    if unknown := [each for each in sample if each not in every]:
        raise ValueError(f"{part}: the sample has {unknown}, which are no parameters")
    return [each for each in every if is_whole(part) or each in sample]


def _is_named(name: str, variable: str) -> bool:
    return os.environ.get("CONFORMANCE_FULL") == "1" or name in os.environ.get(variable, "").split()


def _skipped_unless(wanted: bool, setting: str, beside: str) -> pytest.MarkDecorator:
    reason = f"takes long, and is not what changed: {setting} runs it"
    return pytest.mark.skipif(not wanted, reason=f"{reason}; {beside}" if beside else reason)
