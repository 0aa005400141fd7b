"""Many games in one Java process, each exactly as it would be in a process of its own.

The engine keeps three things once for the whole process: the counter of object ids, the random generator and
the simplifications. They are put away when another game's turn comes, and put back before a game goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .jvm import JavaError, Jvm, translated_errors

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_SCRAMBLE = 0x5DEECE66D
"""The number that ``java.util.Random.setSeed`` mixes in; mixed in before, the state comes out as it was."""


@dataclass(frozen=True, slots=True)
class EngineObservation:
    """The engine's answer to an action."""

    text: str
    points: int
    """The official score, 100 at most; -100 when the task has failed for good."""
    over: bool


class ScienceWorldEngine:
    """One Java process, and the game whose state is loaded in it."""

    def __init__(self) -> None:
        """Raises JavaLost when Java does not start."""
        self.jvm = Jvm()
        with translated_errors():
            packages = self.jvm.gateway.jvm
            self._interface = packages.scienceworld.runtime.pythonapi.PythonInterface
            self._ids = packages.util.UniqueIdentifier
            self._simplifier = packages.main.scala.scienceworld.runtime.SimplifierProcessor
            self._random = getattr(getattr(packages.scala.util, "Random$"), "MODULE$").self()
            self._seed = self._random.getClass().getDeclaredField("seed")
            self._seed.setAccessible(True)
        self._current: EngineGame | None = None

    def open(self, task: str, variation: int, simplifications: str) -> EngineGame:
        """Return a new game. Raises JavaError or JavaLost."""
        self._put_away()
        with translated_errors():
            interface = self._interface()
            problem = interface.load(task, variation, simplifications, False)
            if problem:
                self.jvm.release(interface)
                raise JavaError(str(problem))
            # It holds the objects of all thirty tasks, 11 MB, and only loading needs it.
            getattr(interface, "taskMaker_$eq")(None)
            agent = interface.agentInterface().get()
            simplified = str(agent.simplificationStr())
        self.jvm.release(agent)
        self._current = game = EngineGame(self, interface, (task, variation, simplifications), simplified)
        return game

    def enter(self, game: EngineGame) -> None:
        """Load the state of this game, after that of the current one is put away."""
        if game is self._current:
            return
        self._put_away()
        seed, count = game.globals
        with translated_errors():
            self._random.setSeed(seed ^ _SCRAMBLE)
            getattr(self._ids, "count_$eq")(count)
            self._simplifier.parseSimplificationStr(game.simplified)
        self._current = game

    def _put_away(self) -> None:
        if self._current is not None:
            with translated_errors():
                self._current.globals = (self.seed(), int(self._ids.count()))
            self._current = None

    def seed(self) -> int:
        """Return the state of the random generator."""
        return int(self._seed.get(self._random))

    def reseed(self, seed: int) -> None:
        """Set the state of the random generator back."""
        self._random.setSeed(seed ^ _SCRAMBLE)

    def leave(self, game: EngineGame) -> None:
        """Forget a game that is over; nothing of it is put back."""
        if game is self._current:
            self._current = None


class EngineGame:
    """One task under way. Every method raises JavaLost, and JavaError where the engine raises."""

    def __init__(
        self,
        engine: ScienceWorldEngine,
        interface: JavaObject,
        opening: tuple[str, int, str],
        simplified: str,
    ) -> None:
        self._engine = engine
        self._interface = interface
        self._opening = opening
        self._taken: list[str] = []
        self.simplified = simplified
        self.globals = (0, 0)
        """Random state and id counter, while it is another game's turn."""

    def step(self, action: str) -> EngineObservation:
        """Take an action."""
        self._engine.enter(self)
        self._taken.append(action)
        with translated_errors():
            text = str(self._interface.step(action))
            points = round(100 * float(self._interface.getScore()))
            completed = bool(self._interface.getCompleted())
        return EngineObservation(text, points, completed or points < 0)

    def description(self) -> str:
        """Return the task, in the engine's words."""
        with translated_errors():
            return str(self._interface.getTaskDescription())

    def templates(self) -> list[str]:
        """Return forms of the actions that there are, with OBJ for an object."""
        self._engine.enter(self)
        return self._texts("getPossibleActions")

    def valid_actions(self) -> list[str]:
        """Return every action that has an effect now. Slow; the game does not notice."""
        self._engine.enter(self)
        with translated_errors():
            seed = self._engine.seed()
        try:
            return self._texts("getValidActionObjectCombinations")
        finally:
            with translated_errors():
                self._engine.reseed(seed)

    def twin(self) -> EngineGame:
        """Return a game in the same state: the same beginning, and the same actions."""
        twin = self._engine.open(*self._opening)
        for action in self._taken:
            try:
                twin.step(action)
            except JavaError:
                continue
        return twin

    def close(self) -> None:
        """Give its memory back."""
        self._engine.leave(self)
        self._engine.jvm.release(self._interface)

    def _texts(self, method: str) -> list[str]:
        with translated_errors():
            found = getattr(self._interface, method)()
            # One message instead of one for each text.
            text = str(self._engine.jvm.gateway.jvm.java.lang.String.join("\n", found))
        self._engine.jvm.release(found)
        return text.split("\n") if text else []
