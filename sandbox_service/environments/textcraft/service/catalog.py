"""The goals of TextCraft as tasks, from the prepared data."""

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
    from sandbox_service.config import TextcraftConfig
    from sandbox_service.environments.base import Provisions


class TextcraftCatalog(GameCatalog):
    """Every item that has a recipe, by how many recipes lie one upon the other."""

    def __init__(self, config: TextcraftConfig, provisions: Provisions) -> None:
        spec = game_spec("textcraft", provisions, many_per_worker=config.many_per_worker)
        facts = GameFacts(
            description="Craft an item of Minecraft by its real recipes, most of them in several stages.",
            actions="get <count> <item>; craft <count> <item> using <count> <item>, ...; inventory.",
            default_split="train",
            max_steps=config.max_steps,
        )
        super().__init__(spec, facts, partial(read_tasks, provisions.data))
