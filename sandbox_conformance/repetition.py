"""Searches a catalog for tasks that repeat each other under different ids.

A payload does not always tell tasks apart: worlds may find the content by a task's id, or make it from a
seed. Two tasks therefore repeat each other if their payloads are equal, or if their references, grading and
openings are, and either one message solves them or their payloads differ in the ids alone. Tasks of several
messages may open alike, since they may hide what differs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.environments.base import Catalog

_MOST_COMPARED = 1000
"""Tasks of a split that are compared, spread over the whole of it."""
_HELD_OUT = {"test", "validation", "valid", "val", "dev", "eval", "evaluation", "heldout"}
_NO_LETTERS = re.compile(r"[^a-z]+")


@dataclass(frozen=True, slots=True)
class Repetitions:
    """Groups of ids; tasks of different groups do not repeat each other."""

    equal: list[list[str]]
    """Tasks with equal payloads."""
    alike: list[list[str]]
    """Tasks that repeat each other if their openings are equal; the smallest groups first."""


def leaked_tasks(catalog: Catalog) -> dict[tuple[str, str], list[str]]:
    """Return the ids that a training split shares with a held-out one, by the names of both.

    A word of a split's name says which of them it is, such as ``train`` or ``test``; other splits may have
    tasks of both.
    """
    words = {split.name: set(_NO_LETTERS.split(split.name.lower())) for split in catalog.describe().splits}
    ids = {name: set(catalog.task_ids(name)) for name in words}
    return {
        (training, held_out): sorted(shared)
        for training in ids
        for held_out in ids
        if "train" in words[training]
        and words[held_out] & _HELD_OUT
        and (shared := ids[training] & ids[held_out])
    }


def compared_tasks(catalog: Catalog) -> list[str]:
    """Return the ids of the tasks to compare: those of all splits, each id once."""
    ids: dict[str, None] = {}
    for split in catalog.describe().splits:
        of_split = catalog.task_ids(split.name)
        ids.update(dict.fromkeys(of_split[:: max(1, 1 + (len(of_split) - 1) // _MOST_COMPARED)]))
    return list(ids)


def compare(catalog: Catalog, task_ids: Iterable[str]) -> Repetitions:
    """Compare tasks with each other by what the service knows of them."""
    payloads, solutions = [], []
    for task_id in task_ids:
        payload, reference = catalog.payload(task_id), [*catalog.reference(task_id)]
        nameless = [
            {key: value for key, value in part.items() if value != task_id}
            for part in (payload.grading, payload.task)
        ]
        payloads.append((digest(payload.task, payload.grading), task_id))
        solutions.append(
            (digest(reference, nameless[0], None if len(reference) == 1 else nameless[1]), task_id)
        )
    return Repetitions(groups_of(payloads), sorted(groups_of(solutions), key=len))


def groups_of(keyed: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the tasks that share their key with another one, grouped by it."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for key, task_id in keyed:
        groups[key].append(task_id)
    return [group for group in groups.values() if len(group) > 1]


def digest(*values: object) -> str:
    """Return the same text for the same JSON values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
