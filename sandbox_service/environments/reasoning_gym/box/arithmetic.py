"""Read arithmetic that a model wrote: numbers, + - * /, parentheses, and nothing else.

The package hands such answers to ``sympy.parse_expr``, which executes them as Python. Here a text is read
token by token into exact fractions, in time proportional to its length. Standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_TOKEN = re.compile(r"\s*(?:([0-9]{1,9})|([-+*/()]))")
_SIGNS = {"\N{MULTIPLICATION SIGN}": "*", "·": "*", "÷": "/", "\N{MINUS SIGN}": "-", "\N{EN DASH}": "-"}
_MOST_CHARACTERS = 2000
_MOST_DEPTH = 50
_MOST_BITS = 4096
"""Size of an intermediate result's numerator or denominator."""


class ArithmeticTextError(ValueError):
    """The text is no arithmetic, divides by zero, or is larger than any answer."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An expression that was read."""

    value: Fraction
    numbers: tuple[int, ...]
    """The numbers as they were written, from left to right."""
    operators: frozenset[str]


def read_arithmetic(text: str) -> Arithmetic:
    """Return value, numbers and operators of an expression. Raises ArithmeticTextError."""
    reader = _Reader(_tokens(text))
    value = reader.sum(0)
    if reader.position != len(reader.tokens):
        raise ArithmeticTextError("there is something after the expression")
    return Arithmetic(value, tuple(reader.numbers), frozenset(reader.operators))


def _tokens(text: str) -> list[str]:
    text = "".join(_SIGNS.get(each, each) for each in text.strip())
    if len(text) > _MOST_CHARACTERS:
        raise ArithmeticTextError("the expression is too long")
    tokens: list[str] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ArithmeticTextError(f"{text[position]!r} is no part of arithmetic")
        tokens.append(found[1] or found[2])
        position = found.end()
    return tokens


class _Reader:
    """A recursive descent through the tokens."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0
        self.numbers: list[int] = []
        self.operators: set[str] = set()

    def sum(self, depth: int) -> Fraction:
        value = self._product(depth)
        while (sign := self._next_of("+-")) is not None:
            other = self._product(depth)
            value = _bounded(value + other if sign == "+" else value - other)
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._factor(depth)
        while (sign := self._next_of("*/")) is not None:
            other = self._factor(depth)
            if sign == "/" and not other:
                raise ArithmeticTextError("a division by zero")
            value = _bounded(value * other if sign == "*" else value / other)
        return value

    def _factor(self, depth: int) -> Fraction:
        if depth > _MOST_DEPTH:
            raise ArithmeticTextError("too many levels")
        if self._take("-"):
            return -self._factor(depth + 1)
        if self._take("("):
            value = self.sum(depth + 1)
            if not self._take(")"):
                raise ArithmeticTextError("a parenthesis is not closed")
            return value
        if self.position == len(self.tokens) or not self.tokens[self.position].isdigit():
            raise ArithmeticTextError("a number is missing")
        number = int(self.tokens[self.position])
        self.position += 1
        self.numbers.append(number)
        return Fraction(number)

    def _next_of(self, signs: str) -> str | None:
        if self.position < len(self.tokens) and self.tokens[self.position] in signs:
            self.position += 1
            self.operators.add(self.tokens[self.position - 1])
            return self.tokens[self.position - 1]
        return None

    def _take(self, token: str) -> bool:
        taken = self.position < len(self.tokens) and self.tokens[self.position] == token
        self.position += taken
        return taken


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MOST_BITS:
        raise ArithmeticTextError("an intermediate result is too large")
    return value
