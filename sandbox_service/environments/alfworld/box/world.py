"""A game of ALFWorld: its planning model, one in a process.

What can be done is asked from Fast Downward, a C++ library with one state, which the zygote loads and each
worker gives its own game.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import textworld
from textworld.envs import PddlEnv

from sandbox_service.environments.shared.box.game_world import GameWorld, Turn
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
_GREETING = "-= Welcome to TextWorld, ALFRED! =-"
_TASK = "Your task is to: "


class _Engine:
    """The library with its wrapper, and the folder of the games."""

    env: Any = None
    data = Path()


def warm(data: str | None) -> None:
    """Load the library, and one game with what every game reads."""
    if data is None:
        raise WorldError("alfworld has no games; set it up")
    # The package makes this folder when it is imported.
    os.environ["ALFWORLD_DATA"] = str(Path(textworld.__file__).parent)
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler

    _Engine.data = Path(data)
    _Engine.env = AlfredDemangler(PddlEnv(textworld.EnvInfos(won=True, admissible_commands=True)))
    first = next(iter(sorted(_Engine.data.glob("*/*/*/*/game.tw-pddl"))), None)
    if first is not None:
        _Engine.env.load(str(first))
        _Engine.env.reset()


class AlfWorld(GameWorld):
    """The task has ``game``, the path of its file below the data."""

    def instructions(self) -> str:
        return _INSTRUCTIONS

    def open(self) -> Turn:
        path = _Engine.data / self.task["game"]
        try:
            _Engine.env.load(str(path))
        except (OSError, ValueError, KeyError) as error:
            raise WorldError(f"the game {self.task['game']} cannot be read: {error}") from error
        state = _Engine.env.reset()
        text = str(state.feedback).removeprefix(_GREETING).strip()
        _, _, chore = text.rpartition(_TASK)
        return self._turn(state, text, {"task_description": f"{_TASK}{chore}"})

    def play(self, action: str, timeout_s: float) -> Turn:
        state, _, _ = _Engine.env.step(" ".join(action.lower().split()))
        return self._turn(state, str(state.feedback))

    def _turn(self, state: Mapping[str, Any], text: str, info: dict[str, Any] | None = None) -> Turn:
        won = bool(state["won"])
        actions = () if won else tuple(state["admissible_commands"])
        return Turn(text, float(won), float(won), won, won, actions, info or {})


WORLD = AlfWorld
