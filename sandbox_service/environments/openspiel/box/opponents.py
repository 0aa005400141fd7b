"""Opponents without a model. A move follows from the task and the state alone, so episodes are replayed."""

from __future__ import annotations

import functools
import random
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyspiel

from .match import load_game
from .moves import POKER

if TYPE_CHECKING:
    from .match import Match

_SIMULATIONS = 1000
_ALPHA = 0.2
"""The share of bluffs of the equilibrium of Kuhn poker that is played; there is one for each up to 1/3."""
PLAYED = MappingProxyType(
    {
        "tic_tac_toe": ("random", "mcts", "optimal"),
        "connect_four": ("random", "mcts"),
        "breakthrough": ("random", "mcts"),
        "nim": ("random", "mcts", "optimal"),
        POKER: ("random", "optimal"),
    }
)
"""Opponents of each game: tree search needs open cards, and an optimal one a game small enough."""


def move_at_random(match: Match, seed: str) -> int:
    """Return a legal move; ``setup/prepare.py`` has the same rule."""
    return int(random.Random(f"{seed} {match.plies}").choice(match.state.legal_actions()))


def search_tree(match: Match, seed: str) -> int:
    """Return the move of the library's Monte Carlo tree search."""
    number = zlib.crc32(f"{seed} {match.plies}".encode()) >> 1  # the library takes 31 bits
    rollouts = pyspiel.RandomRolloutEvaluator(1, number)
    bot = pyspiel.MCTSBot(load_game(match.spec), rollouts, 2.0, _SIMULATIONS, 100, True, number, False)
    return int(bot.step(match.state))


def play_optimally(match: Match, seed: str) -> int:
    """Return a move that no other beats; in poker one drawn from an equilibrium."""
    state = match.state
    player = state.current_player()
    if match.name != POKER:
        solver = _solver(match.spec)
        best = max(state.legal_actions(), key=lambda action: solver.value(state.child(action), player))
        return int(best)
    choices = _equilibrium().get_state_policy(state.information_state_string(player))
    actions, weights = zip(*choices, strict=True)
    drawn: int = random.Random(f"{seed} {match.plies}").choices(actions, weights)[0]
    return drawn


class Solver:
    """The values of the states of one game, by minimax."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, int], float] = {}

    def value(self, state: Any, player: int) -> float:  # noqa: ANN401  # of a package without types
        """Return what a player gets from a state if both play optimally."""
        if state.is_terminal():
            return float(state.returns()[player])
        key = (str(state), player)
        if key not in self._values:
            best = max if state.current_player() == player else min
            self._values[key] = best(self.value(state.child(each), player) for each in state.legal_actions())
        return self._values[key]


@functools.cache
def _solver(spec: str) -> Solver:
    return Solver()


@functools.cache
def _equilibrium() -> Any:  # noqa: ANN401
    return pyspiel.kuhn_poker.get_optimal_policy(_ALPHA)


OPPONENTS: Mapping[str, Callable[[Match, str], int]] = MappingProxyType(
    {"random": move_at_random, "mcts": search_tree, "optimal": play_optimally}
)
"""Opponents by the value of the parameter ``opponent``."""
