"""Tasks and splits of the bike rental."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from sandbox_contract.inspection import Environment, Split
from sandbox_contract.messages import Tool
from sandbox_service.environments.base import EnvironmentSpec, TaskPayload
from sandbox_service.environments.bike_rental.box.tools import tool_schemas
from sandbox_service.environments.shared.service.catalog_errors import unknown_split, unknown_task

from .generator import TASKS, RentalTask, generate_tasks
from .reference import reference_messages

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.config import BikeRentalConfig


_USER: dict[str, JsonValue] = {
    "type": "string",
    "enum": ["scripted", "solo", "model"],
    "description": "Who the customer is: a script, nobody (the task tells everything), or a model that "
    "whoever plays the episode asks.",
}
_ACTION_FORMAT = (
    "An assistant message with OpenAI tool_calls, or with "
    '<tool_call>{"name": ..., "arguments": {...}}</tool_call> in its content. A message without a call '
    "goes to the customer."
)


class BikeRentalCatalog:
    """Generated tasks, in splits with a database each."""

    def __init__(self, config: BikeRentalConfig) -> None:
        self._config = config
        self.spec = EnvironmentSpec(
            name="bike_rental",
            world_module="sandbox_service.environments.bike_rental.box.world",
            agent_code=False,
            many_per_worker=config.many_per_worker,
            fork=True,
            deterministic=True,
            image="sandbox-code",
            instances_per_box=1000,
        )

    def describe(self) -> Environment:
        spec = self.spec
        return Environment(
            name=spec.name,
            description="A bike rental's service desk: settle what a customer asks for by the desk's policy, "
            "with tools on its database; graded by the database and by what the customer was told.",
            splits=tuple(Split(name=name, size=len(self.task_ids(name))) for name in TASKS),
            default_split="train",
            action_format=_ACTION_FORMAT,
            tools=tuple(Tool.model_validate(each) for each in tool_schemas()),
            capabilities=spec.capabilities,
            reward_range=(0.0, 1.0),
            max_steps=self._config.max_steps,
            params={"type": "object", "properties": {"user": _USER}, "additionalProperties": False},
        )

    def task_ids(self, split: str) -> Sequence[str]:
        if split not in TASKS:
            raise unknown_split("bike_rental", split, TASKS)
        return [task.id for task in generate_tasks(split)]

    def payload(self, task_id: str) -> TaskPayload:
        task = self._task(task_id)
        sent: dict[str, JsonValue] = {
            "id": task.id,
            "category": task.category,
            "difficulty": task.difficulty,
            "database": task.database,
            "script": task.script(),
            "ticket": task.ticket(),
            "user": self._config.user,
            "max_steps": self._config.max_steps,
        }
        return TaskPayload(task=sent, grading=task.grading(), max_steps=self._config.max_steps)

    def reference(self, task_id: str) -> Sequence[dict[str, JsonValue]]:
        """Return the solution for the configured user; there is none for a model's words."""
        if self._config.user == "model":
            return []
        return reference_messages(self._task(task_id), customer=self._config.user == "scripted")

    @cached_property
    def _tasks(self) -> dict[str, RentalTask]:
        return {task.id: task for split in TASKS for task in generate_tasks(split)}

    def _task(self, task_id: str) -> RentalTask:
        try:
            return self._tasks[task_id]
        except KeyError:
            raise unknown_task("bike_rental", task_id) from None
