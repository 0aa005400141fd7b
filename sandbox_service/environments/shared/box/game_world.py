"""The base of text games: reads actions, answers in the message form they came in, keeps the score.

A game implements ``system_prompt``, ``open_game`` and ``play_action``; malformed messages are handled here.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from sandbox_service.runner.world import JsonObject, Outcome, Start, Verdict, World, WorldError, wants_sparse
from sandbox_service.wire.codes import BoxErrorCode

from .game_actions import ACT, ACT_TOOL, parse_moves
from .parameters import unknown_parameter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sandbox_service.environments.shared.box.calls import ParsedCall


_MOST_MOVES = 8
"""Moves of one message that are played; later ones are refused, not ignored."""
_AFTER_END = "Not played: the game is over."
_TOO_MANY = f"Not played: a message may hold at most {_MOST_MOVES} actions."


@dataclass(frozen=True, slots=True)
class GameTurn:
    """The game's answer to an action, or its opening."""

    text: str
    reward: float = 0.0
    """The game's own reward of this action."""
    score: float = 0.0
    """The score of the episode so far, between 0 and 1."""
    done: bool = False
    success: bool = False
    """The task is solved; a game may be over without it."""
    actions: tuple[str, ...] = ()
    """Actions that the game offers now, where it lists them."""
    info: JsonObject = field(default_factory=dict)
    image: str | None = None
    """A picture of what the text says, as a data URL."""
    truncated: bool = False
    """It is over because the game's own time is; it has reached no end."""


class GameWorld(World):
    """One game. The task has ``category`` and ``max_steps``; the rest is the game's own."""

    PARAMS: ClassVar[tuple[str, ...]] = ()
    """Create parameters that the game knows; ``open`` reads them from ``self.context.params``."""
    TOOLS: ClassVar[tuple[JsonObject, ...]] = (ACT_TOOL,)

    @abstractmethod
    def system_prompt(self) -> str:
        """Return the system prompt: what the game is, and which actions there are."""

    @abstractmethod
    def open_game(self) -> GameTurn:
        """Begin; the text is the task and the first observation. Raises WorldError."""

    @abstractmethod
    def play_action(self, action: str, timeout_s: float) -> GameTurn:
        """Take one action that is neither empty nor too long. What the game does not know is its answer."""

    def start(self) -> Start:
        unknown = sorted(set(self.context.params) - set(self.PARAMS))
        if unknown:
            raise WorldError(unknown_parameter(unknown[0], self.PARAMS), BoxErrorCode.INVALID_REQUEST)
        self.turn = self.open_game()
        messages = [
            {"role": "system", "content": self.system_prompt()},
            {"role": "user", "content": self.turn.text, **_shown([self.turn.image])},
        ]
        info = {"category": self.task["category"], "max_steps": self.task["max_steps"]}
        return Start(messages, list(self.TOOLS), {**info, **info_of(self.turn)})

    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        moves = parse_moves(message)
        answers: list[str] = []
        images: list[str | None] = []
        self.broken_off_reward = 0.0
        for number, move in enumerate(moves):
            refusal = self._refusal(move, number)
            if refusal is None:
                self.turn = self.play_action(move.arguments["action"], timeout_s)
                self.broken_off_reward += self.turn.reward
            answers.append(refusal or self.turn.text)
            images.append(None if refusal else self.turn.image)
        return Outcome(
            messages=answer_moves(moves, answers, images),
            reward=self.broken_off_reward,
            terminated=self.turn.done and not self.turn.truncated,
            truncated=self.turn.truncated,
            info=info_of(self.turn),
        )

    def _refusal(self, move: ParsedCall, number: int) -> str | None:
        """Return why a move is not played, for the model."""
        if self.turn.done:
            return _AFTER_END
        return _TOO_MANY if number >= _MOST_MOVES else move.problem

    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        sparse = wants_sparse(params)
        score = float(self.turn.success) if sparse else min(1.0, max(0.0, self.turn.score))
        return Verdict(score, self.turn.success, {"done": self.turn.done})

    def untouched(self, task: JsonObject) -> Iterator[World]:
        # The evaluation reads the last turn and cannot fail, and an engine's copy may share its connection.
        return iter(())


def info_of(turn: GameTurn) -> dict[str, Any]:
    """Return the info of a start or a step."""
    info: dict[str, Any] = {"score": turn.score, **turn.info}
    return {**info, "available_actions": list(turn.actions)} if turn.actions else info


def answer_moves(
    moves: list[ParsedCall], answers: list[str], images: Sequence[str | None] = ()
) -> list[JsonObject]:
    """Return tool messages for native calls; one user message for actions in plain text.

    ``images`` has the picture of each answer, where the game shows any.
    """
    if moves[0].native:
        return [
            {
                "role": "tool",
                "tool_call_id": move.call_id,
                "name": move.name or ACT,
                "content": answer,
                **_shown([image]),
            }
            for move, answer, image in zip(moves, answers, images or [None] * len(moves), strict=True)
        ]
    return [{"role": "user", "content": "\n\n".join(answers), **_shown(images)}]


def _shown(images: Iterable[str | None]) -> JsonObject:
    """Return the field of a message's pictures, where there are any."""
    found = [image for image in images if image is not None]
    return {"images": found} if found else {}
