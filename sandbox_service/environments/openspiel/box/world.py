"""A game for two: the agent against an opponent of the library, or against a second model.

A model's moves are steps of their own, with the name ``opponent``: the instance hands the game over to
whoever plays the episode, and answers the agent when the opponent has moved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from sandbox_service.environments.shared.box.game_actions import parse_moves
from sandbox_service.environments.shared.box.game_world import GameTurn, GameWorld, answer_moves, info_of
from sandbox_service.runner.world import JsonObject, Outcome, Start, WorldError
from sandbox_service.wire.codes import BoxErrorCode

from .match import Match, load_game
from .moves import label_of
from .opponents import OPPONENTS, PLAYED
from .rules import rules_prompt

if TYPE_CHECKING:
    from sandbox_service.environments.shared.box.calls import ParsedCall

MODEL = "model"
COUNTERPART = "opponent"
"""The name that messages of a model's opponent have."""
_NOT_NOW = "Not played: it is your opponent's turn."


class OpenspielWorld(GameWorld):
    """One match. The task has ``spec``, ``rounds``, ``seat``, ``seed``, ``opponent`` and ``warnings``."""

    PARAMS: ClassVar[tuple[str, ...]] = ("opponent",)

    def system_prompt(self) -> str:
        return rules_prompt(self.task["category"], self.task["warnings"])

    def start(self) -> Start:
        self.asked: tuple[list[ParsedCall], list[str]] | None = None
        """The agent's moves that wait for the opponent's, and the answers to them so far."""
        self.opponent_knows_rules = False
        self.begun = False
        started = super().start()
        if not self.awaits_model:
            self.begun = True
            return started
        info = {**started.info, "awaits": COUNTERPART}
        return Start(self._to_opponent(""), started.tools, info)

    def open_game(self) -> GameTurn:
        task = self.task
        self.match = Match(task["category"], task["spec"], task["rounds"], task["seat"])
        self.opponent = self._chosen_opponent()
        self.warned = {True: 0, False: 0}
        """Illegal moves of the agent, and of the opponent."""
        self.lost: bool | None = None
        """Whether the agent, and not the opponent, has lost by illegal moves; None while nobody has."""
        self._let_opponent_move()
        return self._turn()

    def _chosen_opponent(self) -> str:
        chosen = self.context.params.get("opponent", self.task["opponent"])
        known = (*PLAYED[self.match.name], MODEL)
        if chosen not in known:
            detail = (
                f"the opponent of {self.match.name} is one of: {', '.join(known)}; not {str(chosen)[:40]!r}"
            )
            raise WorldError(detail, BoxErrorCode.INVALID_REQUEST)
        return str(chosen)

    @property
    def over(self) -> bool:
        """The match has ended."""
        return self.match.over or self.lost is not None

    @property
    def awaits_model(self) -> bool:
        """The next move is that of an opponent that is a model."""
        return self.opponent == MODEL and not self.over and not self.match.agent_moves

    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        named = message.get("name") == COUNTERPART
        if named != self.awaits_model:
            awaited = f"of {COUNTERPART!r}" if self.awaits_model else "of the agent"
            detail = f"the instance waits for a message {awaited}; the opponent's name is {COUNTERPART!r}"
            raise WorldError(detail, BoxErrorCode.INVALID_REQUEST)
        if named:
            return self._hear_opponent(parse_moves(message)[0])
        outcome = super().step(message, timeout_s)
        if not self.awaits_model:
            return outcome
        moves = parse_moves(message)
        self.asked = (moves, [_NOT_NOW] * len(moves))
        return Outcome(self._to_opponent(""), outcome.reward, info={**outcome.info, "awaits": COUNTERPART})

    def play_action(self, action: str, timeout_s: float) -> GameTurn:
        if self.awaits_model:
            return GameTurn(_NOT_NOW)
        problem = self._make_move(action, agent=True)
        if problem is None:
            self._let_opponent_move()
        turn = self._turn()
        return turn if problem is None else replace(turn, text=f"{problem}\n\n{turn.text}")

    def _make_move(self, text: str, *, agent: bool) -> str | None:
        """Make the move that a text names; return the warning if it is not legal."""
        legal = self.match.legal_moves()
        move = legal.get(label_of(self.match.name, text))
        if move is not None:
            self.match.apply_move(move)
            return None
        self.warned[agent] += 1
        if self.warned[agent] > self.task["warnings"]:
            self.lost = agent
            return "That is no legal move, and the game is lost."
        return f"That is no legal move: warning {self.warned[agent]} of {self.task['warnings']}."

    def _let_opponent_move(self) -> None:
        """Make the moves of an opponent of the library."""
        while not self.over and self.opponent != MODEL and not self.match.agent_moves:
            self.match.apply_move(OPPONENTS[self.opponent](self.match, self.task["seed"]))

    def _hear_opponent(self, call: ParsedCall) -> Outcome:
        """Take a move of a model's opponent."""
        # A message that cannot be read is a move that is not legal.
        problem = self._make_move("" if call.problem else call.arguments["action"], agent=False)
        self.turn = self._turn()
        if self.awaits_model:
            info = {**info_of(self.turn), "awaits": COUNTERPART}
            return Outcome(self._to_opponent(problem or ""), info=info)
        return Outcome(self._to_agent(), self.turn.reward, terminated=self.turn.done, info=info_of(self.turn))

    def _to_agent(self) -> list[JsonObject]:
        """Return the state for the agent, in the form in which its last move came."""
        if not self.begun:
            self.begun = True
            prompt = {"role": "system", "content": self.system_prompt()}
            return [prompt, {"role": "user", "content": self.turn.text}]
        if self.asked is None:
            return [{"role": "user", "content": self.turn.text}]
        moves, answers = self.asked
        self.asked = None
        return answer_moves(moves, [self.turn.text, *answers[1:]])

    def _to_opponent(self, problem: str) -> list[JsonObject]:
        """Return the state for a model's opponent, with the rules at first."""
        said = {"role": "user", "content": "\n\n".join(filter(None, (problem, self._seen(agent=False))))}
        if self.opponent_knows_rules:
            return [said]
        self.opponent_knows_rules = True
        return [{"role": "system", "content": self.system_prompt()}, said]

    def _turn(self) -> GameTurn:
        text = self._seen(agent=True)
        if not self.over:
            actions = tuple(self.match.legal_moves()) if self.match.agent_moves else ()
            return GameTurn(text, actions=actions)
        gained = self.match.gained if self.lost is None else -1.0 if self.lost else 1.0
        score = 1.0 if gained > 0 else 0.5 if gained == 0 else 0.0
        result = "You win." if score == 1.0 else "You lose." if score == 0.0 else "It is a draw."
        turn_info = {"opponent_reward": 1.0 - score}
        return GameTurn(f"{text}\n\n{result}", score, score, True, score == 1.0, info=turn_info)

    def _seen(self, *, agent: bool) -> str:
        text = self.match.view(agent=agent)
        if self.over:
            return text
        return f"{text}\nLegal moves: {'; '.join(self.match.legal_moves())}"


def warm(data: str | None) -> None:
    """Load a game before workers are forked."""
    load_game("tic_tac_toe")


WORLD = OpenspielWorld
