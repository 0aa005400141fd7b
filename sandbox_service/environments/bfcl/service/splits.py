"""The splits: categories, sub-types of several categories, and seeded train and validation parts of both.

A task is in the training or in the validation part whichever split one asks for, so that the training part of
one never meets the validation part of another. Standard library only.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

_NON_LIVE = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
)
_LIVE = (
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
)
_MULTI_TURN = (
    "multi_turn_base",
    "multi_turn_miss_func",
    "multi_turn_miss_param",
    "multi_turn_long_context",
)
_MEMORY = ("memory_kv", "memory_rec_sum")
_ALL = (*_NON_LIVE, *_LIVE, *_MULTI_TURN, *_MEMORY)
_NON_PYTHON = ("simple_java", "simple_javascript")

SUBTYPES: dict[str, tuple[str, ...]] = {
    "all": _ALL,
    "all_scoring": _ALL,
    "multi_turn": _MULTI_TURN,
    "single_turn": (*_NON_LIVE, *_LIVE),
    "live": _LIVE,
    "non_live": _NON_LIVE,
    "non_python": _NON_PYTHON,
    "python": tuple(name for name in (*_NON_LIVE, *_LIVE) if name not in _NON_PYTHON),
    "memory": _MEMORY,
    "agentic": _MEMORY,
}
"""The package's collections, without categories that need weights, a search key, or are not scored."""


def make_splits(
    categories: Mapping[str, Sequence[str]],
    validation_share: float,
    seed: int,
    repeated: Iterable[Sequence[str]] = (),
) -> dict[str, tuple[str, ...]]:
    """Return ids by split; ``train`` and ``validation`` are parts of ``all_scoring``.

    ``repeated`` has groups of tasks that ask for the same. Of one that both parts would have, all are for
    training.
    """
    held_out = {
        task_id
        for category, ids in categories.items()
        for task_id in _held_out(category, ids, validation_share, seed)
    }
    for group in repeated:
        if not held_out.issuperset(group):
            held_out.difference_update(group)
    whole = {
        name: tuple(id_ for each in names for id_ in categories[each]) for name, names in SUBTYPES.items()
    }
    single = {name: tuple(ids) for name, ids in categories.items()}
    divided = {"": whole["all_scoring"], **single, **whole}
    splits: dict[str, tuple[str, ...]] = {}
    for name, ids in divided.items():
        shuffled = list(ids)
        random.Random(f"{seed}:{name}").shuffle(shuffled)  # a fixed order, not a secret
        stem = f"{name}_" if name else ""
        splits[f"{stem}train"] = tuple(each for each in shuffled if each not in held_out)
        splits[f"{stem}validation"] = tuple(each for each in shuffled if each in held_out)
    # The names under which public clients ask for it.
    splits["val"] = splits["dev"] = splits["validation"]
    return {**splits, **single, **whole}


def _held_out(category: str, ids: Sequence[str], share: float, seed: int) -> list[str]:
    """Return the category's part of the validation tasks; at least one where there are two.

    The categories of one family put the same conversations under other conditions, in the same order. They
    hold out the same ones, so that no validation task was trained on under another name.
    """
    families = {"multi_turn": _MULTI_TURN, "memory": _MEMORY}
    family = next((name for name, members in families.items() if category in members), category)
    count = min(max(1, round(share * len(ids))), len(ids) - 1)
    return random.Random(f"{seed}:{family}").sample(list(ids), max(0, count))
