"""Find pieces of code that occur twice: runs of six or more lines whose tokens have the same shape.

The shape of a line is its tokens with every name, number and text replaced by a sign, so that a copy with
other names is found too. Comments, docstrings, imports and empty lines are left out. Windows of six lines
that are nearly the same line six times, as in a list of fields or of constants, say nothing and are skipped.
"""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

LEAST_LINES = 6
_LEAST_SHAPES = 5
"""Different shapes that a window must have."""
_LEAST_TOKENS = 36
"""Tokens that a window must have."""
_MOST_PLACES = 30
"""A window that occurs in more places is an idiom of the language, not a copy."""
_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}
_SIGNS = {tokenize.NUMBER: "0", tokenize.STRING: "s"}


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code with its shape."""

    number: int
    shape: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Two pieces of the same shape."""

    lines: int
    first: str
    """``path:line`` of one."""
    second: str
    same_text: bool
    """Whether the names are the same, too."""


@dataclass(frozen=True, slots=True)
class _Spot:
    place: str
    index: int


def find_duplicates(sources: Mapping[str, str]) -> list[Duplicate]:
    """Return the longest common run of every two places, the longest first."""
    lines = {place: code_lines(text) for place, text in sources.items()}
    starts: dict[tuple[tuple[str, ...], ...], list[_Spot]] = defaultdict(list)
    for place, code in lines.items():
        for index in range(len(code) - LEAST_LINES + 1):
            window = tuple(line.shape for line in code[index : index + LEAST_LINES])
            if _says_something(window):
                starts[window].append(_Spot(place, index))
    found: list[Duplicate] = []
    covered: set[tuple[_Spot, _Spot]] = set()
    for spots in starts.values():
        if len(spots) > _MOST_PLACES:
            continue
        for one, other in combinations(spots, 2):
            if (one, other) not in covered:
                found += _grown(one, other, lines, covered)
    return sorted(found, key=lambda each: (-each.lines, each.first, each.second))


def code_lines(text: str) -> list[CodeLine]:
    """Return the lines that hold code, with their shapes."""
    left_out = _left_out(text)
    shapes: dict[int, list[str]] = defaultdict(list)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT and token.start[0] not in left_out:
            shapes[token.start[0]].append(_sign(token))
    content = text.splitlines()
    return [CodeLine(number, tuple(shape), content[number - 1].strip()) for number, shape in shapes.items()]


def _sign(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return token.string if keyword.iskeyword(token.string) else "n"
    return _SIGNS.get(token.type, token.string)


def _left_out(text: str) -> set[int]:
    """Numbers of the lines of docstrings and imports."""
    numbers: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            numbers.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return numbers


def _says_something(window: Sequence[tuple[str, ...]]) -> bool:
    return len(set(window)) >= _LEAST_SHAPES and sum(map(len, window)) >= _LEAST_TOKENS


def _grown(
    one: _Spot, other: _Spot, lines: Mapping[str, list[CodeLine]], covered: set[tuple[_Spot, _Spot]]
) -> list[Duplicate]:
    """Grow two equal windows in both directions; nothing is found if they overlap."""
    first, second = lines[one.place], lines[other.place]
    start, length = 0, LEAST_LINES
    apart = other.index - one.index if one.place == other.place else len(second)
    while (
        min(one.index, other.index) + start > 0
        and first[one.index + start - 1].shape == second[other.index + start - 1].shape
    ):
        start -= 1
    while (
        one.index + length < len(first)
        and other.index + length < len(second)
        and first[one.index + length].shape == second[other.index + length].shape
    ):
        length += 1
    for offset in range(start, length):
        covered.add((_Spot(one.place, one.index + offset), _Spot(other.place, other.index + offset)))
    if apart < length - start:
        return []
    mine = first[one.index + start : one.index + length]
    theirs = second[other.index + start : other.index + length]
    return [
        Duplicate(
            len(mine),
            f"{one.place}:{mine[0].number}",
            f"{other.place}:{theirs[0].number}",
            [line.text for line in mine] == [line.text for line in theirs],
        )
    ]
