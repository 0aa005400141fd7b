"""Small defects for functions: edits of their source text, found by its syntax tree.

The text outside of an edit stays as it is, so that a correction is a line or two. Nothing here decides
whether an edit changes the behaviour; the package's tests do.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

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
_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.FloorDiv: ("//", "%"),
    ast.Mod: ("%", "//"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
}
_SHORTEST, _LONGEST = 3, 80
"""Lines of a function that is worth a defect."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One edit of a module's text."""

    function: str
    """Qualified name within the module."""
    first_line: int
    """Line of the function's ``def``, or of its first decorator."""
    line: int
    kind: str
    start: int
    end: int
    text: str
    """Replaces the characters from ``start`` to ``end``."""

    def apply(self, source: str) -> str:
        """Return the source with the defect."""
        return source[: self.start] + self.text + source[self.end :]


def find_mutations(source: str) -> list[Mutation]:
    """Return every edit of every function, in the order of the text. Raises SyntaxError.

    Some may give no valid module, which ``is_module`` tells: to try them all would take long.
    """
    tree = ast.parse(source)
    text = _Text(source)
    found: list[Mutation] = []
    for name, function in _functions(tree, ""):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if _SHORTEST <= lines <= _LONGEST:
            first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
            for node, kind, start, end, replacement in _edits(function, text):
                found.append(Mutation(name, first, node.lineno, kind, start, end, replacement))
    return found


def choose(found: list[Mutation], per_function: int, draw: random.Random) -> list[Mutation]:
    """Return at most so many edits of each function, of different kinds where there are any, shuffled."""
    by_function: dict[tuple[str, int], list[Mutation]] = {}
    for each in found:
        by_function.setdefault((each.function, each.first_line), []).append(each)
    chosen: list[Mutation] = []
    for edits in by_function.values():
        draw.shuffle(edits)
        kinds: dict[str, int] = {}
        ranked: list[tuple[int, int, Mutation]] = []
        for edit in edits:
            kinds[edit.kind] = kinds.get(edit.kind, 0) + 1
            ranked.append((kinds[edit.kind], len(ranked), edit))
        chosen += [edit for _, _, edit in sorted(ranked, key=lambda each: each[:2])[:per_function]]
    draw.shuffle(chosen)
    return chosen


class _Text:
    """Converts the tree's positions, a line and a byte of it, to characters of the source."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def position(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt)
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.position(node.lineno, node.col_offset), self.position(end_line, end_column)

    def of(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end]


_Edit = tuple[ast.expr | ast.stmt, str, int, int, str]


def _functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _functions(node, prefix)


def _edits(function: ast.FunctionDef, text: _Text) -> Iterator[_Edit]:
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.expr):
                yield from _expression_edits(node, text)
            elif isinstance(node, ast.stmt):
                yield from _statement_edits(node, text)


def _expression_edits(node: ast.expr, text: _Text) -> Iterator[_Edit]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        old, new = _COMPARISONS[type(node.ops[0])]
        yield from _between(node, node.left, node.comparators[0], old, new, "comparison", text)
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        old, new = _OPERATORS[type(node.op)]
        # A string before a percent sign is formatted; with another operator it only raises.
        if not isinstance(node.left, ast.Constant | ast.JoinedStr) or old != "%":
            yield from _between(node, node.left, node.right, old, new, "operator", text)
    elif isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield from _between(node, node.values[0], node.values[1], old, new, "boolean operator", text)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start, end = text.span(node)
        yield node, "dropped not", start, end, f"({text.of(node.operand)})"
    elif isinstance(node, ast.Constant):
        yield from _constant_edits(node, text)
    elif isinstance(node, ast.Call) and len(node.args) >= 2:
        first, second = node.args[:2]
        if not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred):
            start, end = text.span(first)[0], text.span(second)[1]
            middle = text.source[text.span(first)[1] : text.span(second)[0]]
            if text.of(first) != text.of(second) and "#" not in middle:
                yield node, "swapped arguments", start, end, f"{text.of(second)}{middle}{text.of(first)}"


def _constant_edits(node: ast.Constant, text: _Text) -> Iterator[_Edit]:
    start, end = text.span(node)
    if isinstance(node.value, bool):
        yield node, "constant", start, end, str(not node.value)
    elif isinstance(node.value, int) and 0 <= node.value < 1000:
        yield node, "boundary", start, end, str(node.value + 1)
        if node.value:
            yield node, "boundary", start, end, str(node.value - 1)


def _statement_edits(node: ast.stmt, text: _Text) -> Iterator[_Edit]:
    if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.UnaryOp | ast.Constant):
        start, end = text.span(node.test)
        yield node, "negated condition", start, end, f"not ({text.of(node.test)})"
    elif isinstance(node, ast.AugAssign | ast.Raise) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        start, end = text.span(node)
        yield node, "dropped statement", start, end, "pass"
    elif isinstance(node, ast.Break):
        start, end = text.span(node)
        yield node, "loop control", start, end, "continue"
    elif isinstance(node, ast.Continue):
        start, end = text.span(node)
        yield node, "loop control", start, end, "break"


def _between(
    node: ast.expr, left: ast.expr, right: ast.expr, old: str, new: str, kind: str, text: _Text
) -> Iterator[_Edit]:
    """Yield the edit of an operator, which the tree gives no position, between its operands."""
    start, end = text.span(left)[1], text.span(right)[0]
    gap = text.source[start:end]
    pattern = rf"\b{re.escape(old).replace(chr(92) + ' ', ' +')}\b" if old[0].isalpha() else re.escape(old)
    found = list(re.finditer(pattern, gap))
    if len(found) == 1 and "#" not in gap:
        yield node, kind, start + found[0].start(), start + found[0].end(), new


def is_module(source: str) -> bool:
    """Return whether a text can be parsed."""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True
