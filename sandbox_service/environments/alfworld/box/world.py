"""A game of ALFWorld: its planning model, one in a process.

What can be done is asked from Fast Downward, a C++ library with one state, which the zygote loads and each
worker gives its own game.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import textworld
from textworld.envs import PddlEnv

from sandbox_service.environments.shared.box.game_world import GameTurn, GameWorld
from sandbox_service.runner.world import WorldError

_INSTRUCTIONS = """\
You do a chore in a household. Each answer is one command in exactly one of these forms, \
with names and numbers as you have read them:

look
inventory
go to PLACE
open PLACE
close PLACE
take THING from PLACE
move THING to PLACE
examine THING or PLACE
use THING
heat THING with PLACE
cool THING with PLACE
clean THING with PLACE
slice THING with THING

You can carry one thing. A command that cannot be done is answered with "Nothing happens."\
"""
_TITLE = "-= Welcome to TextWorld, ALFRED! =-"
_TASK = "Your task is to: "


def warm(data: str | None) -> None:
    """Load the library, and one game with what every game reads."""
    if data is None:
        raise WorldError("alfworld has no games; set it up")
    # The package makes this folder when it is imported.
    os.environ["ALFWORLD_DATA"] = str(Path(textworld.__file__).parent)
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler

    AlfWorld.data = Path(data)
    AlfWorld.env = AlfredDemangler(PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True)))
    first = next(iter(sorted(AlfWorld.data.glob("*/*/*/*/game.tw-pddl"))), None)
    if first is not None:
        AlfWorld.env.load(str(first))
        AlfWorld.env.reset()


class AlfWorld(GameWorld):
    """The task has ``game``, the path of its file below the data."""

    env: ClassVar[Any] = None
    """The planner's library with its wrapper, which has one state in a process."""
    data: ClassVar[Path] = Path()
    """The folder of the games."""

    def system_prompt(self) -> str:
        return _INSTRUCTIONS

    def open_game(self) -> GameTurn:
        path = self.data / self.task["game"]
        try:
            self.env.load(str(path))
        except (OSError, ValueError, KeyError) as error:
            raise WorldError(f"the game {self.task['game']} cannot be read: {error}") from error
        state = self.env.reset()
        text = str(state.feedback).removeprefix(_TITLE).strip()
        _, _, chore = text.rpartition(_TASK)
        return self._turn(state, text, {"task_description": f"{_TASK}{chore}"})

    def play_action(self, action: str, timeout_s: float) -> GameTurn:
        state, _, _ = self.env.step(" ".join(action.lower().split()))
        return self._turn(state, str(state.feedback))

    def _turn(self, state: Mapping[str, Any], text: str, info: dict[str, Any] | None = None) -> GameTurn:
        won = bool(state["won"])
        actions = () if won else tuple(state["admissible_commands"])
        return GameTurn(text, float(won), float(won), won, won, actions, info or {})


WORLD = AlfWorld
