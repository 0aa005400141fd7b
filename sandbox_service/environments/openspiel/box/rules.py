"""The rules of the games, as both players are told them."""

from __future__ import annotations

from types import MappingProxyType

_RULES = MappingProxyType(
    {
        "tic_tac_toe": "Tic-tac-toe: three marks in a row, column or diagonal win. A move is a row and"
        " a column from 0 to 2, counted from the top left, such as: 1,2",
        "connect_four": "Connect four: four marks in a row, column or diagonal win. A move is a column"
        " from 0 to 6, into which your mark falls, such as: 3",
        "breakthrough": "Breakthrough: black (b) moves down and white (w) up, one step straight or"
        " diagonally ahead, and captures diagonally. The first to reach the other end, or to capture all"
        " pieces, wins. A move is the square that you leave and the one that you enter, such as: a5b4",
        "nim": "Nim: take any number from one pile. The player who takes the last one wins. A move is a pile "
        "and a number, such as: pile 2, take 3",
        "kuhn_poker": "Kuhn poker: the cards are J, Q and K; each player antes 1 and gets one card. Pass or "
        "bet 1. After a bet, pass folds and bet calls. The higher card wins the pot. The player who has won "
        "more after all hands wins the match. A move is: pass or bet",
    }
)
_HOW = """\
Answer each observation with one move. A move that is not legal is a warning; after {warnings} warnings, \
another one loses the game."""


def rules_prompt(name: str, warnings: int) -> str:
    """Return the system prompt of both players."""
    return f"You play a game against an opponent.\n\n{_RULES[name]}\n\n{_HOW.format(warnings=warnings)}"
