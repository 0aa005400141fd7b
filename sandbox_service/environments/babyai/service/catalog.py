"""The levels and seeds of BabyAI as tasks, from the prepared data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_service.environments.shared.service.game_catalog import (
    GameCatalog,
    GameFacts,
    game_spec,
    read_tasks,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.config import BabyaiConfig
    from sandbox_service.environments.base import Provisions
    from sandbox_service.environments.shared.service.game_catalog import GameTask


_LONGEST = 2880
"""The engine's own limit of the largest level."""
_PARAMS: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "efficiency": {
            "type": "boolean",
            "default": False,
            "description": "Score a solved task by minigrid's reward, which falls with each step, not by 1.",
        },
        "picture": {
            "type": "boolean",
            "default": False,
            "description": "Show what is seen as a picture, too, beside the words of each observation.",
        },
    },
    "additionalProperties": False,
}


class BabyaiCatalog(GameCatalog):
    """Forty levels, a task for each seed of them."""

    def __init__(self, config: BabyaiConfig, provisions: Provisions) -> None:
        spec = game_spec("babyai", provisions, many_per_worker=config.many_per_worker)
        facts = GameFacts(
            description="Carry out an instruction in a grid of rooms, seen and acted in by words.",
            actions="One of the available actions that each observation lists, such as: go to red ball 1.",
            default_split="train",
            max_steps=config.max_steps or _LONGEST,
            params=_PARAMS,
        )
        super().__init__(spec, facts, lambda: _tasks(provisions.data, config.max_steps))


def _tasks(data: Path, limit: int | None) -> Iterator[GameTask]:
    for task in read_tasks(data):
        own = task.max_steps or _LONGEST
        yield task.model_copy(update={"max_steps": min(own, limit or own)})
