"""The parts of generated programs: filters, changes and reductions, in words and in Python.

Code is an expression of ``x`` for one item, or has ``{}`` for the list of items. ``#`` in words and code
stands for a number or letter that is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dice import Dice


_LETTERS = "aeionrstl"
_VOCABULARY = (
    "apple river stone level noon radar orange table window garden eagle ink ocean letter summer winter "
    "yellow paper train island engine coffee bottle silver kayak civic otter spoon green moon seed deed "
    "tiger zebra lemon onion ant arrow even odd under night light eleven seven nine ten unit area idea"
)
_WORDS = tuple(_VOCABULARY.split())


@dataclass(frozen=True, slots=True)
class Part:
    """One element of a program."""

    words: str
    """With ``{}`` for what it is about, except in a filter."""
    code: str
    values: tuple[str, ...] = ()
    """The values that ``#`` may stand for; empty where there is none."""
    numeric: bool = False
    """Whether a change results in numbers."""

    def drawn(self, dice: Dice) -> Part:
        """Return the part with its ``#`` replaced."""
        if not self.values:
            return self
        value = dice.one_of(self.values)
        return Part(self.words.replace("#", value), self.code.replace("#", value), (), self.numeric)


@dataclass(frozen=True, slots=True)
class InputKind:
    """The kind of input that a function gets."""

    parameter: str
    noun: str
    items: str
    """The items of the argument, in Python."""
    numeric: bool
    filters: tuple[Part, ...]
    changes: tuple[Part, ...]
    draw: Callable[[Dice, int], object]
    """An argument with so many items."""


def _numbers(least: int, most: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(least, most + 1))


def _draw_numbers(dice: Dice, length: int) -> object:
    return [dice.between(-30, 60) for _ in range(length)]


def _draw_words(dice: Dice, length: int) -> object:
    return [dice.one_of(_WORDS) for _ in range(length)]


def _draw_text(dice: Dice, length: int) -> object:
    return " ".join(dice.one_of(_WORDS) for _ in range(length))


_NUMBER_FILTERS = (
    Part("are even", "x % 2 == 0"),
    Part("are odd", "x % 2 == 1"),
    Part("are positive", "x > 0"),
    Part("are negative", "x < 0"),
    Part("are greater than #", "x > #", _numbers(1, 25)),
    Part("are less than #", "x < #", _numbers(1, 25)),
    Part("are divisible by #", "x % # == 0", _numbers(3, 7)),
    Part("are not divisible by #", "x % # != 0", _numbers(3, 7)),
    Part("have # as their last digit", "abs(x) % 10 == #", _numbers(0, 9)),
)
_NUMBER_CHANGES = (
    Part("the squares of {}", "x * x", numeric=True),
    Part("the absolute values of {}", "abs(x)", numeric=True),
    Part("the last digits of {}", "abs(x) % 10", numeric=True),
    Part("the remainders modulo # of {}", "x % #", _numbers(2, 9), numeric=True),
    Part("the sums of # and each of {}", "x + #", _numbers(2, 20), numeric=True),
    Part("the products of # and each of {}", "x * #", _numbers(2, 9), numeric=True),
)
_WORD_FILTERS = (
    Part("begin with a vowel", "x[0] in 'aeiou'"),
    Part("do not begin with a vowel", "x[0] not in 'aeiou'"),
    Part("begin with the letter '#'", "x.startswith('#')", tuple("aeilnost")),
    Part("end with the letter '#'", "x.endswith('#')", tuple("elnrt")),
    Part("contain the letter '#'", "'#' in x", tuple(_LETTERS)),
    Part("do not contain the letter '#'", "'#' not in x", tuple(_LETTERS)),
    Part("have more than # letters", "len(x) > #", _numbers(3, 5)),
    Part("have fewer than # letters", "len(x) < #", _numbers(4, 6)),
    Part("have exactly # letters", "len(x) == #", _numbers(3, 6)),
    Part("have an even number of letters", "len(x) % 2 == 0"),
    Part("have an odd number of letters", "len(x) % 2 == 1"),
    Part("read the same backwards", "x == x[::-1]"),
)
_WORD_CHANGES = (
    Part("the lengths of {}", "len(x)", numeric=True),
    Part("the first letters of {}", "x[0]"),
    Part("the last letters of {}", "x[-1]"),
    Part("{} spelled backwards", "x[::-1]"),
    Part("{} in upper case", "x.upper()"),
)
_ORDERED = (
    Part("a list of {}, in their original order", "{}"),
    Part("a list of {}, sorted", "sorted({})"),
    Part("a list of {}, sorted in descending order", "sorted({}, reverse=True)"),
    Part("a list of {}, the last one first", "{}[::-1]"),
    Part("a sorted list of {}, without duplicates", "sorted(set({}))"),
    Part("the number of different values among {}", "len(set({}))"),
)
_OF_NUMBERS = (
    Part("the sum of {}", "sum({})"),
    Part("the largest of {}, or 0 if there are none", "max({}, default=0)"),
    Part("the smallest of {}, or 0 if there are none", "min({}, default=0)"),
)
_OF_WORDS = (
    Part("a string of {}, joined with commas", "','.join({})"),
    Part("a string of {}, joined with spaces", "' '.join({})"),
)
_COUNT = Part("how many there are of {}", "len({})")

KINDS = (
    InputKind("numbers", "numbers", "numbers", True, _NUMBER_FILTERS, _NUMBER_CHANGES, _draw_numbers),
    InputKind("words", "words", "words", False, _WORD_FILTERS, _WORD_CHANGES, _draw_words),
    InputKind("text", "words of the text", "text.split()", False, _WORD_FILTERS, _WORD_CHANGES, _draw_text),
)


def reductions(kind: InputKind, change: Part | None) -> tuple[Part, ...]:
    """Return the reductions that fit the items; counting them makes sense unless they were changed."""
    numeric = change.numeric if change else kind.numeric
    fitting = _ORDERED + (_OF_NUMBERS if numeric else _OF_WORDS)
    return fitting if change else (*fitting, _COUNT)
