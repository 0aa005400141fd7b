"""Join the tasks of several splits, and divide a limit among them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest


def joined_tasks(splits: Sequence[Sequence[str]], limit: int | None = None) -> list[str]:
    """Return the tasks of the splits in their order, each once.

    A limit is divided equally among the splits, and what a short one leaves goes to the others; each has its
    first tasks.
    """
    tasks = list(dict.fromkeys(chain.from_iterable(splits)))
    if limit is None:
        return tasks
    in_turn = dict.fromkeys(each for turn in zip_longest(*splits) for each in turn if each is not None)
    chosen = set(list(in_turn)[:limit])
    return [each for each in tasks if each in chosen]
