"""Every variation of ScienceWorld's thirty tasks, in the official splits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_service.environments.base import EnvironmentSpec
from sandbox_service.environments.shared.service.game_catalog import (
    GameCatalog,
    GameFacts,
    GameTask,
    read_tasks,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_contract.inspection import Environment
    from sandbox_service.config import ScienceworldConfig
    from sandbox_service.environments.base import Provisions


_PARAMS: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "simplifications": {
            "type": "string",
            "default": "easy",
            "description": "The engine's simplifications, with commas; an empty text for none.",
        },
        "valid_actions": {
            "type": "boolean",
            "default": False,
            "description": "Every observation's info lists all actions with an effect, which is slow.",
        },
    },
    "additionalProperties": False,
}


class ScienceworldCatalog(GameCatalog):
    """Variations by task, as the engine lists them; ``gold`` has one of each task with a known solution."""

    def __init__(self, config: ScienceworldConfig, provisions: Provisions) -> None:
        spec = EnvironmentSpec(
            name="scienceworld",
            world_module="sandbox_service.environments.scienceworld.box.world",
            agent_code=False,
            many_per_worker=config.many_per_worker,
            # A copied process would share its source's connection to Java.
            fork=config.many_per_worker,
            deterministic=True,
            image="sandbox-scienceworld",
            instances_per_box=config.instances_per_box,
            # The engine loads a house for each, one after another in the Java process that all share.
            creates_per_core=8,
            provisions=provisions,
        )
        facts = GameFacts(
            description="Science experiments for primary school in a simulated house, of thirty kinds.",
            actions="Commands such as: open door to kitchen; focus on metal pot; pour beaker in sink; wait.",
            default_split="train",
            max_steps=config.max_steps,
            params=_PARAMS,
        )
        super().__init__(spec, facts, lambda: _read(provisions.data, config.max_steps))

    def describe(self) -> Environment:
        # A wrong focus takes back what was earned.
        return super().describe().model_copy(update={"reward_range": (-1.0, 1.0)})


def _read(data: Path, max_steps: int) -> Iterator[GameTask]:
    """Yield the tasks; long ones keep their own limit of steps where the configured one is lower."""
    for task in read_tasks(data):
        limit = max(task.max_steps or 0, max_steps)
        yield task.model_copy(update={"max_steps": limit})
