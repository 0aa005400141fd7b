"""A task of ScienceWorld on the official engine, a Java process that the games of a worker share."""

from __future__ import annotations

import functools
import os
import signal
from typing import TYPE_CHECKING, ClassVar, NoReturn

from sandbox_service.environments.shared.box.game_world import GameTurn, GameWorld
from sandbox_service.runner.world import WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .engine import EngineObservation, ScienceWorldEngine
from .jvm import JavaError, JavaLost

if TYPE_CHECKING:
    from sandbox_service.runner.world import Context


_INSTRUCTIONS = """\
You do a science experiment in a simulated house with several rooms. You act by commands of these forms, \
where OBJ stands for an object that you have seen, such as "metal pot" or "door to kitchen":

{templates}

"wait" lets ten moments pass, "wait1" one. "focus on OBJ" tells which object the task is about: do it only \
with the object that the task asks for, since a wrong one ends the task in failure. "task" repeats the task. \
When a command is ambiguous you are shown numbered readings: answer with the number alone. \
Answer each observation with one command.\
"""
_FAILED = "The engine could not carry out that action. Try another."
_SIMPLIFICATIONS = (
    "easy",
    "noElectricalAction",
    "openContainers",
    "openDoors",
    "selfWateringFlowerPots",
    "teleportAction",
)


@functools.lru_cache(maxsize=1)
def _engine(pid: int) -> ScienceWorldEngine:
    """Return the engine of this process, whose id ``pid`` is: a copy must not talk to its source's Java."""
    return ScienceWorldEngine()


def _end_worker(lost: JavaLost) -> NoReturn:
    """Without Java every game of this worker is lost; its end says so to the runner, and no score does."""
    print(f"scienceworld: {lost}", flush=True)  # noqa: T201  # the worker's log
    os.kill(os.getpid(), signal.SIGKILL)
    raise lost


class ScienceWorld(GameWorld):
    """The task has ``task``, the engine's name of it, and ``variation``."""

    PARAMS: ClassVar[tuple[str, ...]] = ("simplifications", "valid_actions")

    def system_prompt(self) -> str:
        return _INSTRUCTIONS.format(templates="\n".join(self._templates))

    def open_game(self) -> GameTurn:
        simplifications = _simplifications(self.context.params.get("simplifications", "easy"), self.task)
        self._with_valid = self.context.params.get("valid_actions", False)
        if not isinstance(self._with_valid, bool):
            raise WorldError("valid_actions is true or false", BoxErrorCode.INVALID_REQUEST)
        self._points = 0
        try:
            self._game = _engine(os.getpid()).open(self.task["task"], self.task["variation"], simplifications)
            self._templates = self._game.templates()
            task = self._game.description()
            turn = self._turn(self._game.step("look around"))
        except JavaError as error:
            raise WorldError(f"the engine cannot open the task: {error}") from error
        except JavaLost as lost:
            _end_worker(lost)
        info = {**turn.info, "task_description": task}
        return GameTurn(f"{task}\n\n{turn.text}", score=turn.score, actions=turn.actions, info=info)

    def play_action(self, action: str, timeout_s: float) -> GameTurn:
        # One line, and no lone surrogates, which cannot be sent.
        line = " ".join(action.encode("utf-8", "replace").decode().split())
        try:
            seen = self._game.step(line)
        except JavaError:
            last = self.turn
            return GameTurn(_FAILED, 0.0, last.score, actions=last.actions, info=last.info)
        except JavaLost as lost:
            _end_worker(lost)
        return self._turn(seen)

    def _turn(self, seen: EngineObservation) -> GameTurn:
        points = max(0, seen.points)
        reward = (points - self._points) / 100
        self._points = points
        actions = self._valid_actions() if self._with_valid and not seen.over else ()
        info = {"failed": seen.points < 0}
        return GameTurn(seen.text, reward, points / 100, seen.over, seen.points == 100, actions, info)

    def _valid_actions(self) -> tuple[str, ...]:
        """Return what the engine lists; none if it fails at that, since the action itself has been played."""
        try:
            return tuple(self._game.valid_actions())
        except JavaError:
            return ()
        except JavaLost as lost:
            _end_worker(lost)

    def fork(self, context: Context) -> ScienceWorld:
        twin = type(self)(self.task, context)
        try:
            game = self._game.twin()
        except JavaLost as lost:
            _end_worker(lost)
        twin.__dict__ |= {**self.__dict__, "context": context, "_game": game}
        return twin

    def close(self) -> None:
        try:
            self._game.close()
        except JavaLost as lost:
            _end_worker(lost)


def _simplifications(wanted: object, task: dict[str, object]) -> str:
    """Return the engine's word for the simplifications. Raises WorldError."""
    known = ", ".join(_SIMPLIFICATIONS)
    if not isinstance(wanted, str):
        raise WorldError(f"simplifications is a text with commas of {known}", BoxErrorCode.INVALID_REQUEST)
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    for name in names:
        if name not in _SIMPLIFICATIONS:
            raise WorldError(
                f"there is no simplification {name!r}; there are: {known}", BoxErrorCode.INVALID_REQUEST
            )
    if "easy" in names and len(names) > 1:
        raise WorldError("easy stands alone: it is a set of the others", BoxErrorCode.INVALID_REQUEST)
    electrical = any(part in str(task["task"]) for part in ("power-component", "conductivity"))
    if electrical and "noElectricalAction" in names:
        raise WorldError("this task needs electrical actions", BoxErrorCode.INVALID_REQUEST)
    return ",".join(names)


WORLD = ScienceWorld
