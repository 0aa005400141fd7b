"""Judges of our own, for datasets whose scorer executes the answer as Python or accepts wrong ones.

They compare texts and read numbers and arithmetic; nothing is evaluated. Standard library only. Some scorers
are right about what they read and do not read all of an answer: for these there are forms that it must have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from .arithmetic import ArithmeticTextError, read_arithmetic

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

Judge: TypeAlias = "Callable[[JsonObject, str], bool]"
"""Takes an entry of the dataset and an answer; returns whether it is correct."""

_TWENTY_FOUR = 24
_NEAR_PROBABILITY = Fraction(1, 10_000)
_NEAR_RARITY = Fraction(1, 10)
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)(?P<size>(?:[0-9]{1,3}(?:,[0-9]{3}){1,9}|[0-9]{0,30})"
    r"(?:\.[0-9]{1,30}(?:e[-+]?[0-9]{1,2})?|e[-+]?[0-9]{1,2}|/[0-9]{1,30})?)",
    re.IGNORECASE,
)
"""A whole or decimal number or a fraction, whose size is bounded, since it is computed exactly."""
_FRACTION = re.compile(r"([0-9]{1,30})/([0-9]{1,30})")
_LATEX_FRACTION = re.compile(r"([-+]?)\\[dt]?frac\s*\{\s*([0-9]+)\s*\}\s*\{\s*([0-9]+)\s*\}")
_WRAPPED = re.compile(r"\$(.+)\$|\\\((.+)\\\)|\\\[(.+)\\\]|\\boxed\s*\{(.+)\}", re.DOTALL)
"""LaTeX's marks around a formula or a result."""
_MOST_WRAPPINGS = 4
_CURRENCY = re.compile(r"([-+]?)\\?\$\s*")
"""A dollar sign at the beginning of an amount, before or after its sign."""
_DURATION = re.compile(
    r"(?:(?P<days>-?\d{1,9})(?:\s*days?)?)?"
    r"(?:(?:^|,\s*)(?P<hours>-?\d{1,9}):(?P<minutes>\d{1,2})(?::(?P<seconds>\d{1,2}(?:\.\d{1,6})?))?)?",
    re.ASCII | re.IGNORECASE,
)
"""Days, hours and minutes, or both."""


_PAIR = re.compile(r"\(?[^(),]+,[^(),]+\)?")
_MOVES = re.compile(r"[UDLR]+")
_CELLS = re.compile(r"[01\s,\[\]]+")


def _lines(text: str) -> str:
    """Return a text without space around its lines and words."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


def is_stored_answer(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is the stored one, white space aside."""
    return _lines(answer) == _lines(str(entry["answer"]))


def is_stored_word(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is the stored word, case, white space and a full stop aside."""
    return "".join(answer.split()).rstrip(".").casefold() == str(entry["answer"]).strip().casefold()


def is_stored_sentence(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer has the stored words, case and white space aside."""
    return answer.casefold().split() == str(entry["answer"]).casefold().split()


def is_stored_number(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is the stored number and nothing else, a dollar sign and commas aside.

    A quotient is an answer only where the stored number is not whole: the division is a part of the task.
    """
    value, right = _number(answer), _number(str(entry["answer"]))
    if value is None or value != right:
        return False
    return value.denominator != 1 or "/" not in _plain_number(answer)


def is_stored_list(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is a list of the stored numbers, written as numbers or as texts."""
    numbers = _numbers(answer)
    return numbers is not None and numbers == _numbers(str(entry["answer"]))


def is_stored_probability(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is the stored probability within 1e-4.

    Where that or its complement is smaller, it is right within a tenth: 0 is no answer for a rare event.
    """
    value, right = _share(answer), _number(str(entry["answer"]))
    if value is None or right is None:
        return False
    return abs(value - right) <= min(_NEAR_PROBABILITY, _NEAR_RARITY * min(right, 1 - right))


def is_stored_duration(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is the stored number of days, the stored time, or both as the stored ones."""
    duration = _duration(answer)
    return duration is not None and duration == _duration(str(entry["answer"]))


def is_simplified_fraction(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is the simplified fraction and nothing else, as text or as LaTeX."""
    found = _FRACTION.fullmatch(_plain_number(answer))
    parts = [int(part) for part in found.groups()] if found else []
    metadata = entry["metadata"]
    return parts == [metadata["simplified_numerator"], metadata["simplified_denominator"]]


def is_valid_board(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is one of the solutions that the generator found."""
    return _lines(answer) in {_lines(each) for each in entry["metadata"]["valid_answers"]}


def has_no_word_more(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer has at most as many words as the stored one."""
    return answer.count(",") < len(entry["metadata"]["sorted_words"])


def has_stored_shape(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is a grid with as many rows and columns as the stored one."""
    shape = _shape(_json(answer))
    return shape is not None and shape == _shape(_json(entry["answer"]))


def is_one_value(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer is no more than one pair of numbers, where the question is about a point."""
    return entry["metadata"]["task_type"] != "orthocenter" or _PAIR.fullmatch(answer) is not None


def is_moves_alone(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer consists of moves and nothing else."""
    return _MOVES.fullmatch(answer) is not None


def is_cells_alone(entry: JsonObject, answer: str) -> bool:
    """Return whether an answer consists of zeros and ones, in rows or lists, and nothing else."""
    return _CELLS.fullmatch(answer) is not None


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


def _json(text: str) -> object:
    """Return what a JSON text holds; None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _numbers(text: str) -> list[float] | None:
    """Return the numbers of a JSON list, in whatever quotes or none; None if it is anything else."""
    listed = _json(text.replace("'", '"'))
    if not isinstance(listed, list):
        return None
    try:
        return [float(each) for each in listed]
    except (TypeError, ValueError, OverflowError):
        return None


def _shape(grid: object) -> list[int] | None:
    """Return the length of each row; None if there are no rows."""
    if not isinstance(grid, list) or not all(isinstance(row, list) for row in grid):
        return None
    return [len(row) for row in grid]


def _bare(text: str) -> str:
    """Return a text without LaTeX's delimiters around it and one full stop, inside or outside of them."""
    text = _unwrapped(text.replace("\N{MINUS SIGN}", "-"))
    return _unwrapped(text[:-1]) if text.endswith(".") else text


def _unwrapped(text: str) -> str:
    text = text.strip()
    for _ in range(_MOST_WRAPPINGS):
        found = _WRAPPED.fullmatch(text)
        if found is None:
            break
        text = found[found.lastindex or 0].strip()
    return text


def _plain_number(text: str) -> str:
    """Return a number in digits, as ``1,234.5`` or ``3/7``, for the ways to write it in text and LaTeX."""
    text = _bare(text)
    if amount := _CURRENCY.match(text):
        text = amount[1] + text[amount.end() :]
    # Only a fraction alone: with a number before it, it is a mixed one.
    if fraction := _LATEX_FRACTION.fullmatch(text):
        return f"{fraction[1]}{fraction[2]}/{fraction[3]}"
    return "/".join(part.strip() for part in text.split("/"))


def _share(text: str) -> Fraction | None:
    """Return the number that a text is, perhaps in per cent; None if it is anything else."""
    text = _plain_number(text)
    if not text.endswith("%"):
        return _value(text)
    value = _value(text[:-1].removesuffix("\\").rstrip())
    return None if value is None else value / 100


def _number(text: str) -> Fraction | None:
    """Return the number that a text is; None if it is anything else."""
    return _value(_plain_number(text))


def _value(plain: str) -> Fraction | None:
    found = _NUMBER.fullmatch(plain)
    if found is None:
        return None
    try:
        size = Fraction(found["size"].replace(",", ""))
    except (ValueError, ZeroDivisionError):
        return None
    return -size if found["sign"] == "-" else size


def _duration(text: str) -> tuple[int | None, Fraction | None] | None:
    """Return the days and the seconds beside them that a text is; None if it is anything else."""
    found = _DURATION.fullmatch(_bare(text))
    if found is None:
        return None
    days = None if found["days"] is None else int(found["days"])
    if found["hours"] is None:
        return days, None
    seconds = 3600 * int(found["hours"]) + 60 * int(found["minutes"]) + Fraction(found["seconds"] or 0)
    return days, seconds


JUDGES: MappingProxyType[str, Judge] = MappingProxyType(
    {
        "binary_matrix": is_stored_answer,
        "coin_flip": is_stored_probability,
        "countdown": reaches_target,
        "figlet_font": is_stored_word,
        "fraction_simplification": is_simplified_fraction,
        "game_of_life_halting": is_stored_word,
        "gsm_symbolic": is_stored_number,
        "letter_jumble": is_stored_sentence,
        "n_queens": is_valid_board,
        "number_sorting": is_stored_list,
        "puzzle24": reaches_24,
        "spell_backward": is_stored_word,
        "spiral_matrix": is_stored_answer,
        "string_insertion": is_stored_answer,
        "time_intervals": is_stored_duration,
    }
)
"""Judges by dataset; the package's scorers of these are never called."""

FORMS: MappingProxyType[str, Judge] = MappingProxyType(
    {
        "advanced_geometry": is_one_value,
        "game_of_life": has_stored_shape,
        "kakurasu": is_cells_alone,
        "sokoban": is_moves_alone,
        "word_sorting": has_no_word_more,
    }
)
"""Forms that an answer must have for the package's scorer to be asked about it, by dataset."""
