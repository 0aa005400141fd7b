"""Parse the Python source of task packs, without warnings about their style."""

from __future__ import annotations

import ast
import warnings


def parse_python(code: str) -> ast.Module:
    """Return the syntax tree of a program that can be compiled. Raises SyntaxError for any other text."""
    with warnings.catch_warnings():
        # Published sets hold regular expressions in plain strings, with escapes that Python only tolerates.
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(code)
            # A return outside of a function is found when the tree is compiled, not when it is made.
            compile(tree, "<program>", "exec", dont_inherit=True)
        except (RecursionError, MemoryError):
            raise SyntaxError("an expression is nested too deeply, or has too many operands") from None
        except ValueError as error:
            raise SyntaxError(str(error)) from None
    return tree
