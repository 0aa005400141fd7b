"""ALFWorld's games: the operator's, or a few of our own, in the layout and by the rules of the real ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.shared.service.game_catalog import (
    GameCatalog,
    GameFacts,
    GameTask,
    game_spec,
)
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from sandbox_service.config import AlfworldConfig
    from sandbox_service.environments.base import Provisions


_FOLDER = "json_2.1.1"
_GAME = "game.tw-pddl"
_SPLITS = ("train", "valid_seen", "valid_unseen")
_KINDS = frozenset(
    {
        "look_at_obj_in_light",
        "pick_and_place_simple",
        "pick_clean_then_place_in_recep",
        "pick_cool_then_place_in_recep",
        "pick_heat_then_place_in_recep",
        "pick_two_obj_and_place",
    }
)
_LEFT_OUT = ("movable", "Sliced")
"""Marks of games that the official environment does not play."""
_TAIL_BYTES = 32_768
_SOLVABLE = re.compile(rb'"solvable"\s*:\s*true')


class AlfworldCatalog(GameCatalog):
    """The games below a folder."""

    def __init__(self, config: AlfworldConfig, provisions: Provisions) -> None:
        # The planner's library has one state in a process; the copy of an instance is a process, too.
        per_box = config.instances_per_box
        spec = game_spec("alfworld", provisions, many_per_worker=False, instances_per_box=per_box)
        facts = GameFacts(
            description="Household chores: find, clean, heat, cool and put things, in text.",
            actions="Commands such as: go to fridge 1; open fridge 1; take apple 1 from fridge 1.",
            default_split="train",
            max_steps=config.max_steps,
        )
        super().__init__(spec, facts, lambda: read_games(provisions.data))
        self._data = provisions.data

    def reference(self, task_id: str) -> Sequence[dict[str, JsonValue]]:
        # In the game's own file, of which the real set has thousands.
        path = self._data / str(self.payload(task_id).task["game"])
        actions = json.loads(path.read_text(encoding="utf-8")).get("walkthrough") or ()
        return [{"role": "assistant", "content": str(action)} for action in actions]


def read_games(data: Path) -> Iterator[GameTask]:
    """Yield the games that the official environment would play, by split and path.

    Raises ServiceError(TASK_INVALID) when there is none.
    """
    found = False
    for split in _SPLITS:
        for path in sorted((data / _FOLDER / split).glob(f"*/*/{_GAME}")):
            kind = path.parts[-3].partition("-")[0]
            if (
                kind not in _KINDS
                or any(mark in str(path.parent) for mark in _LEFT_OUT)
                or not _solvable(path)
            ):
                continue
            found = True
            game = path.relative_to(data).as_posix()
            yield GameTask(
                id="/".join(path.parts[-3:-1]), category=kind, splits=(split,), task={"game": game}
            )
    if not found:
        detail = f"alfworld: there is no game {_FOLDER}/train/*/*/{_GAME} below {data}"
        raise ServiceError(ErrorCode.TASK_INVALID, detail)


def _solvable(path: Path) -> bool:
    """Return whether the file says that its game can be solved; the real ones say so at their end."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        if _SOLVABLE.search(file.read()):
            return True
        file.seek(0)
        return bool(_SOLVABLE.search(file.read()))
