"""The base of small catalogs: numbered tasks of a function, and a descriptor from a few attributes.

    class Sums(TaskCatalog):
        name = "sums"
        description = "Add two numbers."
        splits = {"train": 1000, "test": 100}

        def make_task(self, split: str, number: int) -> NumberedTask: ...

Its world is ``WORLD`` of the module ``box.world`` beside the catalog's own module.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from sandbox_contract.inspection import Environment, Split
from sandbox_service.environments.base import EnvironmentSetup, EnvironmentSpec, TaskPayload
from sandbox_service.environments.shared.service.catalog_errors import unknown_split, unknown_task

if TYPE_CHECKING:
    from pydantic import JsonValue

_NO_PARAMS: dict[str, JsonValue] = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class NumberedTask:
    """One task."""

    prompt: str
    """The first message of the user."""
    grading: Mapping[str, JsonValue] = field(default_factory=dict)
    """Ground truth: sent to the box with each evaluation, and not before."""
    reference: Sequence[str | dict[str, JsonValue]] = ()
    """Assistant messages that solve the task, as texts or in OpenAI's form."""
    task: Mapping[str, JsonValue] = field(default_factory=dict)
    """More that the world needs, as ``self.task``; nothing that gives the solution away."""
    category: str = "all"
    """The name that tables of scores group by."""


class TaskCatalog(ABC):
    """A catalog whose tasks are made one by one, from the name of a split and a number."""

    name: ClassVar[str]
    description: ClassVar[str]
    """The tasks, in a sentence."""
    splits: ClassVar[Mapping[str, int]]
    """Number of tasks of each split; the first one is the default."""
    max_steps: ClassVar[int] = 1
    """Steps after which an episode is truncated."""
    action_format: ClassVar[str] = "A text."
    """The form of the assistant's actions, in a sentence."""
    many_per_worker: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    params: ClassVar[Mapping[str, JsonValue]] = _NO_PARAMS
    """JSON schema of the create parameters."""

    def __init__(self, setup: EnvironmentSetup | None = None) -> None:
        self.setup = setup or EnvironmentSetup()
        self.spec = EnvironmentSpec(
            name=self.name,
            world_module=f"{type(self).__module__.rpartition('.')[0]}.box.world",
            agent_code=False,
            many_per_worker=self.many_per_worker,
            fork=True,
            deterministic=self.deterministic,
            image=f"sandbox-{self.name}",
            instances_per_box=1000,
            provisions=self.setup.provisions,
        )

    @abstractmethod
    def make_task(self, split: str, number: int) -> NumberedTask:
        """Return a task, the same for the same split and number; ``number`` is below the split's size."""

    def describe(self) -> Environment:
        spec = self.spec
        return Environment(
            name=spec.name,
            description=self.description,
            splits=tuple(Split(name=name, size=size) for name, size in self.splits.items()),
            default_split=next(iter(self.splits)),
            action_format=self.action_format,
            capabilities=spec.capabilities,
            reward_range=(0.0, 1.0),
            max_steps=self.max_steps,
            params=dict(self.params),
        )

    def task_ids(self, split: str) -> Sequence[str]:
        if split not in self.splits:
            raise unknown_split(self.name, split, self.splits)
        return [f"{split}-{number}" for number in range(self.splits[split])]

    def payload(self, task_id: str) -> TaskPayload:
        made = self._task(task_id)
        common: dict[str, JsonValue] = {
            "prompt": made.prompt,
            "category": made.category,
            "max_steps": self.max_steps,
        }
        return TaskPayload({**made.task, **common}, dict(made.grading), self.max_steps)

    def reference(self, task_id: str) -> Sequence[dict[str, JsonValue]]:
        return [
            {"role": "assistant", "content": each} if isinstance(each, str) else {"role": "assistant", **each}
            for each in self._task(task_id).reference
        ]

    def _task(self, task_id: str) -> NumberedTask:
        split, _, digits = task_id.rpartition("-")
        # A number is written in one way only, so that no task has two ids.
        number = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else -1
        if not 0 <= number < self.splits.get(split, 0) or str(number) != digits:
            raise unknown_task(self.name, task_id)
        return self.make_task(split, number)
