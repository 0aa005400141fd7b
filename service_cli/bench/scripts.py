"""Reference episodes as bytes, encoded before the measurement to keep the load generator light."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .variants import VariantError

if TYPE_CHECKING:
    from sandbox_service.environments.base import Catalog

    from .variants import Variant


@dataclass(frozen=True, slots=True)
class Script:
    """A task and the assistant messages that solve it, each as JSON."""

    task_id: str
    messages: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Scripts:
    """A sample of an environment's tasks."""

    environment: str
    split: str
    each: tuple[Script, ...]

    @property
    def steps_per_episode(self) -> float:
        """Mean number of messages."""
        return sum(len(script.messages) for script in self.each) / len(self.each)

    @property
    def longest(self) -> Script:
        """The script with the most messages."""
        return max(self.each, key=lambda script: len(script.messages))

    def first(self, count: int) -> list[Script]:
        """Return ``count`` scripts, cycling through the tasks."""
        return [self.each[index % len(self.each)] for index in range(count)]


def read_scripts(catalog: Catalog, variant: Variant, most: int) -> Scripts:
    """Return tasks that have a reference, spread evenly over the split.

    Raises VariantError if no task has a reference.
    """
    split = variant.split or catalog.describe().default_split
    solvable = [task_id for task_id in catalog.task_ids(split) if catalog.reference(task_id)]
    if not solvable:
        raise VariantError(f"no task of {variant.environment}/{split} has a reference")
    each = (
        Script(task_id, tuple(json.dumps(message).encode() for message in catalog.reference(task_id)))
        for task_id in evenly(solvable, most)
    )
    return Scripts(variant.environment, split, tuple(each))


def evenly(items: Sequence[str], most: int) -> list[str]:
    """Return at most ``most`` items, spread evenly, in order."""
    count = min(most, len(items))
    return [items[index * len(items) // count] for index in range(count)]
