"""Mutation operators: each finds the places of one kind of syntax node where a small edit gives a defect.

An operator yields replacements of the source text. Text outside of them stays as it is, so that a correction
is a line or two.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "%"),
    ast.Mod: ("%", "//"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
}
_LARGEST_NUMBER = 1000


class SourceText:
    """Converts the tree's positions, a line and a byte of it, to characters of the source."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the first character of a node, and the one after its last."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._position(node.lineno, node.col_offset), self._position(end_line, end_column)

    def of(self, node: ast.expr | ast.stmt) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self._source[start:end]

    def gap(self, left: ast.expr, right: ast.expr) -> tuple[int, str]:
        """Return where the text between two nodes begins, and that text."""
        start, end = self.span(left)[1], self.span(right)[0]
        return start, self._source[start:end]

    def replace(self, node: ast.expr | ast.stmt, replacement: str) -> Replacement:
        """Return the replacement of a whole node."""
        return Replacement(*self.span(node), replacement)

    def replace_between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Replacement]:
        """Yield the replacement of an operator, which the tree gives no position, between its operands."""
        start, gap = self.gap(left, right)
        words = re.escape(old).replace(r"\ ", " +")
        found = list(re.finditer(rf"\b{words}\b" if old[0].isalpha() else words, gap))
        if len(found) == 1 and "#" not in gap:
            yield Replacement(start + found[0].start(), start + found[0].end(), new)

    def _position(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text in place of the characters from ``start`` to ``end``."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class MutationOperator:
    """One kind of defect."""

    kind: str
    nodes: type[ast.AST] | tuple[type[ast.AST], ...]
    """The syntax nodes that it edits."""
    edits: Callable[[Any, SourceText], Iterator[Replacement]]
    """Yields the edits of one such node; none where the kind does not apply."""


def _swap_comparison(node: ast.Compare, text: SourceText) -> Iterator[Replacement]:
    if len(node.ops) == 1:
        yield from text.replace_between(node.left, node.comparators[0], *_COMPARISONS[type(node.ops[0])])


def _swap_arithmetic(node: ast.BinOp, text: SourceText) -> Iterator[Replacement]:
    old, new = _ARITHMETIC.get(type(node.op), ("", ""))
    # A string before a percent sign is formatted; with another operator it only raises.
    formats = old == "%" and isinstance(node.left, ast.Constant | ast.JoinedStr)
    if old and not formats:
        yield from text.replace_between(node.left, node.right, old, new)


def _swap_boolean(node: ast.BoolOp, text: SourceText) -> Iterator[Replacement]:
    old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
    yield from text.replace_between(node.values[0], node.values[1], old, new)


def _drop_not(node: ast.UnaryOp, text: SourceText) -> Iterator[Replacement]:
    if isinstance(node.op, ast.Not):
        yield text.replace(node, f"({text.of(node.operand)})")


def _invert_truth(node: ast.Constant, text: SourceText) -> Iterator[Replacement]:
    if isinstance(node.value, bool):
        yield text.replace(node, str(not node.value))


def _shift_number(node: ast.Constant, text: SourceText) -> Iterator[Replacement]:
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_NUMBER:
        yield text.replace(node, str(value + 1))
        if value:
            yield text.replace(node, str(value - 1))


def _swap_arguments(node: ast.Call, text: SourceText) -> Iterator[Replacement]:
    if len(node.args) < 2 or any(isinstance(each, ast.Starred) for each in node.args[:2]):
        return
    first, second = node.args[:2]
    _, middle = text.gap(first, second)
    if text.of(first) != text.of(second) and "#" not in middle:
        start, end = text.span(first)[0], text.span(second)[1]
        yield Replacement(start, end, f"{text.of(second)}{middle}{text.of(first)}")


def _negate_condition(node: ast.If | ast.While, text: SourceText) -> Iterator[Replacement]:
    if not isinstance(node.test, ast.UnaryOp | ast.Constant):
        yield text.replace(node.test, f"not ({text.of(node.test)})")


def _drop_statement(node: ast.AugAssign | ast.Raise | ast.Expr, text: SourceText) -> Iterator[Replacement]:
    if not isinstance(node, ast.Expr) or isinstance(node.value, ast.Call):
        yield text.replace(node, "pass")


def _swap_loop_control(node: ast.Break | ast.Continue, text: SourceText) -> Iterator[Replacement]:
    yield text.replace(node, "continue" if isinstance(node, ast.Break) else "break")


OPERATORS = (
    MutationOperator("comparison", ast.Compare, _swap_comparison),
    MutationOperator("operator", ast.BinOp, _swap_arithmetic),
    MutationOperator("boolean operator", ast.BoolOp, _swap_boolean),
    MutationOperator("dropped not", ast.UnaryOp, _drop_not),
    MutationOperator("constant", ast.Constant, _invert_truth),
    MutationOperator("boundary", ast.Constant, _shift_number),
    MutationOperator("swapped arguments", ast.Call, _swap_arguments),
    MutationOperator("negated condition", (ast.If, ast.While), _negate_condition),
    MutationOperator("dropped statement", (ast.AugAssign, ast.Raise, ast.Expr), _drop_statement),
    MutationOperator("loop control", (ast.Break, ast.Continue), _swap_loop_control),
)
"""Every kind of defect that is put into functions."""
