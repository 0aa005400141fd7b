"""A match: one game, or several hands of one with the seats in turn."""

from __future__ import annotations

import functools
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyspiel

from .moves import POKER, label_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBERS = re.compile(r"\d+")
_CARDS = ("J", "Q", "K")
_MARKS = MappingProxyType({"tic_tac_toe": "xo", "connect_four": "xo", "breakthrough": "bw"})


@functools.cache
def load_game(spec: str) -> Any:  # noqa: ANN401  # of a package without types
    """Return a game of the library; all matches of a process share it."""
    return pyspiel.load_game(spec)


class Match:
    """The state of a match, seen from two seats: the agent's and the opponent's."""

    def __init__(self, name: str, spec: str, rounds: Sequence[Sequence[int]], seat: int) -> None:
        """``rounds`` are the first moves and deals of each round; ``seat`` is the agent's in the first."""
        self.name = name
        self.spec = spec
        self._rounds = [list(each) for each in rounds]
        self._seat = seat
        self._told: list[float] = []
        """Returns of the agent in the rounds that are over."""
        self.plies = 0
        """Moves that were made in all rounds, the openings aside."""
        self.state = self._begin_round(0)

    def _begin_round(self, number: int) -> Any:  # noqa: ANN401
        state = load_game(self.spec).new_initial_state()
        for action in self._rounds[number]:
            state.apply_action(action)
        self.agent = (self._seat + number) % 2
        return state

    @property
    def over(self) -> bool:
        """All rounds are over."""
        return len(self._told) == len(self._rounds)

    @property
    def agent_moves(self) -> bool:
        """The next move is the agent's."""
        return bool(self.state.current_player() == self.agent)

    @property
    def gained(self) -> float:
        """The sum of the agent's returns in the rounds that are over."""
        return sum(self._told)

    def legal_moves(self) -> dict[str, int]:
        """Return the legal moves by their words."""
        player, state = self.state.current_player(), self.state
        actions = state.legal_actions()
        return {label_of(self.name, state.action_to_string(player, action)): action for action in actions}

    def apply_move(self, action: int) -> None:
        """Make a legal move; the next round begins when this one is over."""
        self.state.apply_action(action)
        self.plies += 1
        if self.state.is_terminal():
            self._told.append(float(self.state.returns()[self.agent]))
            if not self.over:
                self.state = self._begin_round(len(self._told))

    def view(self, *, agent: bool) -> str:
        """Return the state as one of the two sees it: of hidden cards its own only."""
        player = self.agent if agent else 1 - self.agent
        if self.name == POKER:
            return self._hand(player, 1 if agent else -1)
        if self.name == "nim":
            piles = _NUMBERS.findall(str(self.state))[1:]
            return "\n".join(f"pile {number}: {left}" for number, left in enumerate(piles, start=1))
        board = str(self.state).rstrip("\n")
        columns = "\n0123456" if self.name == "connect_four" else ""
        return f"You play {_MARKS[self.name][player]}.\n{board}{columns}"

    def _hand(self, player: int, sign: int) -> str:
        ends = [f"Hand {number}: you get {sign * gained:+g}." for number, gained in enumerate(self._told, 1)]
        if self.over:
            return "\n".join(ends)
        dealt, bets = self.state.history()[:2], self.state.history()[2:]
        made = ", ".join(("pass", "bet")[bet] for bet in bets) or "none"
        first = "You act first." if player == 0 else "Your opponent acts first."
        head = f"Hand {len(self._told) + 1} of {len(self._rounds)}. Your card: {_CARDS[dealt[player]]}."
        return "\n".join([*ends, f"{head} {first} Actions so far: {made}."])
