"""The games of TextWorld as tasks, from the prepared data."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sandbox_service.environments.shared.service.game_catalog import (
    GameCatalog,
    GameFacts,
    game_spec,
    read_tasks,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.config import TextworldConfig
    from sandbox_service.environments.base import Provisions


_PARAMS: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "valid_actions": {
            "type": "boolean",
            "default": False,
            "description": "Every observation's info lists the commands that the generator knows to work.",
        },
    },
    "additionalProperties": False,
}


class TextworldCatalog(GameCatalog):
    """A few games of rising difficulty."""

    def __init__(self, config: TextworldConfig, provisions: Provisions) -> None:
        # The machine of a game has one state in a process; the copy of an instance is a process, too.
        per_box = config.instances_per_box
        spec = game_spec("textworld", provisions, many_per_worker=False, instances_per_box=per_box)
        facts = GameFacts(
            description="Text adventures that TextWorld generates: chores, cooking, coins and treasures.",
            actions="Commands such as: open antique trunk; take old key from antique trunk; go east.",
            default_split="train",
            max_steps=config.max_steps,
            params=_PARAMS,
        )
        super().__init__(spec, facts, partial(read_tasks, provisions.data))
