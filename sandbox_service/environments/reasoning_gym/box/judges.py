"""Judges of our own, for datasets whose scorer executes the answer as Python or accepts wrong ones.

They compare texts and read arithmetic; nothing is evaluated. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from .arithmetic import ArithmeticTextError, read_arithmetic

JsonObject = dict[str, Any]
Judge = Callable[[JsonObject, str], bool]
"""Takes an entry of the dataset and an answer; returns whether it is correct."""

_TWENTY_FOUR = 24


def _lines(text: str) -> str:
    """Return a text without space around its lines and words."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def is_stored_answer(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is the stored one, white space aside."""
    return _lines(answer) == _lines(str(entry["answer"]))


def is_stored_word(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is the stored word in whatever case, with or without a full stop."""
    return answer.strip().rstrip(".").casefold() == str(entry["answer"]).casefold()


def is_valid_board(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is one of the solutions that the generator found."""
    return _lines(answer) in {_lines(each) for each in entry["metadata"]["valid_answers"]}


def reaches_target(entry: JsonObject, answer: str) -> bool:
    """Return whether an expression uses each number once and has the target's value."""
    metadata = entry["metadata"]
    return _has_value(answer, metadata["numbers"], metadata["target"])


def reaches_24(entry: JsonObject, answer: str) -> bool:
    """Return whether an expression uses each of the four numbers once and has the value 24."""
    return _has_value(answer, entry["metadata"]["numbers"], _TWENTY_FOUR)


def _has_value(answer: str, numbers: list[int], value: int) -> bool:
    try:
        # An answer may be written as an equation; what stands on its right is not counted.
        expression = read_arithmetic(answer.partition("=")[0])
    except ArithmeticTextError:
        return False
    return expression.value == value and sorted(expression.numbers) == sorted(numbers)


JUDGES: MappingProxyType[str, Judge] = MappingProxyType(
    {
        "binary_matrix": is_stored_answer,
        "countdown": reaches_target,
        "game_of_life_halting": is_stored_word,
        "n_queens": is_valid_board,
        "puzzle24": reaches_24,
        "spiral_matrix": is_stored_answer,
        "string_insertion": is_stored_answer,
    }
)
"""Judges by dataset; the package's scorers of these are never called."""
