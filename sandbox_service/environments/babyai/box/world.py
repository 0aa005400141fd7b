"""A game of BabyAI: minigrid's own level, described in words and played by named moves."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import gymnasium
import minigrid  # noqa: F401  # registers the levels

from sandbox_service.environments.shared.box.game_world import GameTurn, GameWorld
from sandbox_service.runner.world import WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .drawing import draw_view
from .moves import CHECK, Carried, moves
from .picture import see
from .words import described, plain

if TYPE_CHECKING:
    from sandbox_service.runner.world import JsonObject, Verdict


_INSTRUCTIONS = """\
You are placed in a room, one of several perhaps, and carry out the goal that you are given by your actions. \
Every round you get an observation and answer with one action.

Actions:
- turn left, turn right, move forward
- go to <object> <number>: walk up to it and face it, such as: go to red ball 1
- pick up <object> <number>: walk up to it and pick it up; pick up: what is right in front of you
- drop: put what you carry into the cell in front of you
- go through <door> <number>: walk into the doorway of an open door
- toggle and go through <door> <number>: open a closed door and walk into it; a locked one needs a key of \
its color in your hands
- toggle: open or close the door, or open the box, right in front of you
- check available actions

An object's name and number are those of the last observation. You see only what is in front of you. Steps \
and turns are counted: take few.\
"""


def warm(data: str | None) -> None:
    """Make one level before workers are forked, so that they share what that imports."""
    _level("BabyAI-GoToObj-v0", 0)


def _level(name: str, seed: int) -> tuple[gymnasium.Env, JsonObject]:
    """Return a level and its first picture."""
    # Levels print about missions that they draw again.
    with contextlib.redirect_stdout(io.StringIO()):
        env = gymnasium.make(name, disable_env_checker=True).unwrapped
        picture, _ = env.reset(seed=seed)
    return env, picture


class BabyaiWorld(GameWorld):
    """One level. The task has ``name``, the level's in gymnasium, and ``seed``, which settles everything."""

    PARAMS: ClassVar[tuple[str, ...]] = ("efficiency", "picture")

    def system_prompt(self) -> str:
        return _INSTRUCTIONS

    def open_game(self) -> GameTurn:
        for name in self.PARAMS:
            if not isinstance(self.context.params.get(name, False), bool):
                raise WorldError(f"{name} is true or false", BoxErrorCode.INVALID_REQUEST)
        self.reward = 0.0
        self.env, picture = _level(self.task["name"], self.task["seed"])
        self.image = picture["image"]
        return self._with_picture(self._look(before=f"Your goal: {self.env.mission}\n"))

    def play_action(self, action: str, timeout_s: float) -> GameTurn:
        return self._with_picture(self._answer(action))

    def _answer(self, action: str) -> GameTurn:
        known = moves(see(self.image), self._carried())
        name = plain(action)
        if name == CHECK:
            return self._turn_with(f"You can take the following actions: {', '.join(known.possible)}")
        if name not in known.possible:
            return self._turn_with(known.refused.get(name, f"The action is not recognized. Try: {CHECK}."))
        for number in known.possible[name]:
            picture, reward, ended, cut, _ = self.env.step(number)
            self.image = picture["image"]
            if ended or cut:
                return self._end(float(reward), ended=ended)
        return self._look()

    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        verdict = super().evaluate(params, grading)
        return replace(verdict, details={**verdict.details, "reward": self.reward})

    def _with_picture(self, turn: GameTurn) -> GameTurn:
        """Return a turn with the picture of the view, where the episode asked for pictures."""
        return replace(turn, image=draw_view(self.image)) if self.context.params.get("picture") else turn

    def _carried(self) -> Carried | None:
        thing = self.env.carrying
        return None if thing is None else (thing.type, thing.color)

    def _look(self, before: str = "") -> GameTurn:
        sight = see(self.image)
        known = moves(sight, self._carried())
        names = ", ".join(f'"{name}"' for name in known.possible)
        text = f"{before}{described(sight, self._carried())}\nAvailable actions: [{names}]"
        return GameTurn(text, actions=tuple(known.possible), info=self._count())

    def _turn_with(self, text: str) -> GameTurn:
        """Return an answer that took no step of the engine's."""
        return GameTurn(text, actions=self.turn.actions, info=self._count())

    def _end(self, reward: float, *, ended: bool) -> GameTurn:
        self.reward = reward
        solved = reward > 0
        score = reward if self.context.params.get("efficiency") else float(solved)
        if solved:
            text = "The task is completed."
        else:
            text = "The task has failed." if ended else "There are no steps left."
        info = self._count()
        return GameTurn(text, reward, score, done=True, success=solved, truncated=not ended, info=info)

    def _count(self) -> JsonObject:
        return {"engine_steps": int(self.env.step_count), "engine_max_steps": int(self.env.max_steps)}


WORLD = BabyaiWorld
