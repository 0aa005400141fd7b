"""Parse the Python source of task packs, without warnings about their style."""

from __future__ import annotations

import ast
import warnings


def parse_python(code: str) -> ast.Module:
    """Return the syntax tree. Raises SyntaxError; ValueError for NUL bytes."""
    with warnings.catch_warnings():
        # Published sets hold regular expressions in plain strings, with escapes that Python only tolerates.
        warnings.simplefilter("ignore")
        return ast.parse(code)
