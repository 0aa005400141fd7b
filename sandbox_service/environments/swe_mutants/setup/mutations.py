"""Small defects for functions: edits of their source text, found by its syntax tree.

Nothing here decides whether an edit changes the behaviour; the package's tests do.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass

from .operators import OPERATORS, Replacement, SourceText

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
    replacement: Replacement

    def apply(self, source: str) -> str:
        """Return the source with the defect."""
        edit = self.replacement
        return source[: edit.start] + edit.text + source[edit.end :]


def find_mutations(source: str) -> list[Mutation]:
    """Return every edit of every function. Raises SyntaxError.

    Some may give no valid module, which ``is_module`` tells: to try them all would take long.
    """
    tree = ast.parse(source)
    text = SourceText(source)
    found: list[Mutation] = []
    for name, function in _functions(tree, ""):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if _SHORTEST <= lines <= _LONGEST:
            first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
            for line, kind, replacement in _edits(function, text):
                found.append(Mutation(name, first, line, kind, replacement))
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


def _functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _functions(node, prefix)


def _edits(function: ast.FunctionDef, text: SourceText) -> Iterator[tuple[int, str, Replacement]]:
    """Yield line, kind and replacement of each edit of a function's body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    for statement in body:
        for node in ast.walk(statement):
            if not isinstance(node, ast.expr | ast.stmt):
                continue
            for operator in OPERATORS:
                if isinstance(node, operator.nodes):
                    for replacement in operator.edits(node, text):
                        yield node.lineno, operator.kind, replacement


def is_module(source: str) -> bool:
    """Return whether a text can be parsed."""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True
