"""The words for moves, read from the library's notation and from what players write."""

from __future__ import annotations

import re
from types import MappingProxyType

POKER = "kuhn_poker"
_NUMBERS = re.compile(r"\d{1,2}")
_SQUARES = re.compile(r"([a-f][1-6])[\s,x-]{0,3}([a-f][1-6])")
_BETS = MappingProxyType({"pass": "pass", "check": "pass", "fold": "pass", "bet": "bet", "call": "bet"})
_BET = re.compile(rf"\b(?:{'|'.join(_BETS)})\b")


def label_of(name: str, text: str) -> str:
    """Return the words for a move, from the library's notation or a player's; empty if there is no move."""
    words = text.casefold()
    if name == POKER:
        found = _BET.search(words)
        return _BETS[found.group()] if found else ""
    if name == "breakthrough":
        squares = _SQUARES.search(words)
        return "".join(squares.groups()) if squares else ""
    numbers = _NUMBERS.findall(words)
    if name == "nim":
        return f"pile {numbers[0]}, take {numbers[1]}" if len(numbers) == 2 else ""
    return ",".join(numbers)
