"""Splits that are for evaluation: what is trained on them cannot be measured on them any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

PUBLISHED: Mapping[str, tuple[str, ...]] = {
    "code": ("humaneval", "mbpp"),
    "appworld": ("test_normal", "test_challenge"),
}
"""Splits by environment that are published benchmarks, and whose names do not say so."""


def evaluation_splits(environment: str, splits: Iterable[str]) -> tuple[str, ...]:
    """Return those of an environment's splits that are for evaluation: published benchmarks, and splits that
    are named ``test``, ``..._test`` or ``test_...``.
    """
    published = PUBLISHED.get(environment, ())
    return tuple(name for name in splits if name in published or _is_test(name))


def training_refusal(splits: str) -> str:
    """Return the sentence on training on such splits."""
    return (
        f"tasks: {splits} is for evaluation: a model that was trained on it cannot be measured on it; choose "
        "another split, or set tasks.allow_evaluation_splits=true"
    )


def _is_test(name: str) -> bool:
    words = name.replace("-", "_").split("_")
    return "test" in (words[0], words[-1])
