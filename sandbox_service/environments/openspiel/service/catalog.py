"""The games' tasks, from the prepared data."""

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

    from sandbox_service.config import OpenspielConfig
    from sandbox_service.environments.base import Provisions
    from sandbox_service.environments.shared.service.game_catalog import GameTask


_PARAMS: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "opponent": {
            "type": "string",
            "enum": ["random", "mcts", "optimal", "model"],
            "default": "random",
            "description": "The opponent: random moves, Monte Carlo tree search (games with open cards), "
            "optimal play (tic-tac-toe, nim, poker), or a model that whoever plays the episode asks.",
        }
    },
    "additionalProperties": False,
}


class OpenspielCatalog(GameCatalog):
    """Five games, each with openings for both seats."""

    def __init__(self, config: OpenspielConfig, provisions: Provisions) -> None:
        spec = game_spec("openspiel", provisions, many_per_worker=config.many_per_worker)
        facts = GameFacts(
            description="Win a game for two: tic-tac-toe, connect four, breakthrough, nim or Kuhn poker.",
            actions="One of the legal moves that each observation lists.",
            default_split="train",
            max_steps=config.max_steps,
            params=_PARAMS,
        )
        super().__init__(spec, facts, lambda: _with_settings(provisions.data, config))


def _with_settings(data: Path, config: OpenspielConfig) -> Iterator[GameTask]:
    """Yield the tasks with the operator's settings. The default opponent is the one that references beat."""
    settings: dict[str, JsonValue] = {"opponent": "random", "warnings": config.warnings}
    for task in read_tasks(data):
        yield task.model_copy(update={"task": {**task.task, **settings}})
