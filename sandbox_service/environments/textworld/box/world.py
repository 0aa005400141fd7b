"""A game of TextWorld: its program on the Z-machine of jericho, one in a process.

The machine is a C library with one state; the zygote loads it and every game, and a worker begins its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import textworld

from sandbox_service.environments.shared.box.game_world import GameTurn, GameWorld
from sandbox_service.runner.world import WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .words import commands, observation, plain, withheld

_INSTRUCTIONS = """\
You play a text adventure. Each answer is one command of a few words in the imperative.

Commands: look, inventory, goal (what is to be done), examine X, go north / east / south / west, \
take X, take X from Y, drop X, put X on Y, insert X into Y, open X, close X, lock X with Y, unlock X with Y, \
eat X; and in a kitchen: cook X with Y, chop / slice / dice X with Y, prepare meal.\
"""
_KEPT = "{!r} is not part of the game."
_MOST_COMMANDS = 8
"""Commands of a line; with more, none is played."""
_TOO_MANY = f"Not played: a line may hold at most {_MOST_COMMANDS} commands."


def warm(data: str | None) -> None:
    """Load every game, with what its first opening reads."""
    if data is None:
        raise WorldError("textworld has no games; set it up")
    games: dict[str, Any] = {}
    for path in sorted(Path(data).glob("*.z8")):
        wanted = textworld.EnvInfos(
            objective=True, max_score=True, score=True, won=True, lost=True, admissible_commands=True
        )
        game = textworld.start(str(path), wanted)
        game.seed(1)
        game.reset()
        games[path.stem] = game
    TextWorld.games = games


class TextWorld(GameWorld):
    """The task has ``game``, the name of one that is loaded."""

    games: ClassVar[Mapping[str, Any]] = {}
    """The games that are loaded, by name; a worker plays one of them."""
    PARAMS: ClassVar[tuple[str, ...]] = ("valid_actions",)

    def system_prompt(self) -> str:
        return _INSTRUCTIONS

    def open_game(self) -> GameTurn:
        self._with_valid = self.context.params.get("valid_actions", False)
        if not isinstance(self._with_valid, bool):
            raise WorldError("valid_actions is true or false", BoxErrorCode.INVALID_REQUEST)
        try:
            self._game = self.games[self.task["game"]]
        except KeyError:
            raise WorldError(f"there is no game {self.task['game']!r}") from None
        # No game draws lots; should one do, the seed decides. 0 would stand for the clock.
        self._game.seed(1 + self.context.seed % 1_000_000)
        state = self._game.reset()
        self._score = 0
        text = observation(state.feedback)
        begin = max(0, text.find(state.objective)) if state.objective else max(0, text.find("-= "))
        return self._turn(state, text[begin:], info={"task_description": state.objective})

    def play_action(self, action: str, timeout_s: float) -> GameTurn:
        line = plain(action)
        kept = withheld(line)
        if kept is not None:
            return self._refused(_KEPT.format(kept))
        played = commands(line)
        if len(played) > _MOST_COMMANDS:
            return self._refused(_TOO_MANY)
        texts = []
        # One at a time: of a line with several the package reads the score after the first one.
        for command in played:
            state, _, _ = self._game.step(command)
            texts.append(observation(state.feedback))
            if state["won"] or state["lost"]:
                break
        return self._turn(state, "\n\n".join(texts))

    def _refused(self, text: str) -> GameTurn:
        return GameTurn(text, 0.0, self.turn.score, actions=self.turn.actions)

    def _turn(self, state: Mapping[str, Any], text: str, info: dict[str, Any] | None = None) -> GameTurn:
        won, lost = bool(state["won"]), bool(state["lost"])
        points, most = int(state["score"] or 0), int(state["max_score"])
        reward = (points - self._score) / most
        self._score = points
        actions = tuple(state["admissible_commands"]) if self._with_valid and not (won or lost) else ()
        return GameTurn(text, reward, points / most, won or lost, won, actions, info or {})


WORLD = TextWorld
