"""Find the modules of an environment that its preparation imports, from ``setup`` and from ``box``.

Imports are read, not run: the packages of the preparation are not there yet. Those for type checkers do not
count, and neither do names that are put together while it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

START = "setup.prepare"
"""The module that a set-up runs, in the environment's folder."""
_HOLDING_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)


def preparation_modules(folder: Path) -> dict[str, Path]:
    """Return the files of the modules in an environment's folder that its preparation imports, by name."""
    found: dict[str, Path] = {}
    waiting = [START]
    while waiting:
        module = waiting.pop()
        file = _file_of(module, folder)
        if file is None or module in found:
            continue
        found[module] = file
        # A module is imported after the package that it is in.
        waiting += [module.rpartition(".")[0], *imported_names(module, file)]
    return found


def imported_names(module: str, file: Path) -> set[str]:
    """Return the names of modules that a module imports when it runs; some may be names of their contents.

    One that cannot be parsed has none: the preparation reports it.
    """
    try:
        parsed = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return set()
    parts = module.split(".")
    package = parts if file.stem == "__init__" else parts[:-1]
    found: set[str] = set()
    for node in _imports_at_run_time(parsed):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        above = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join([*above, *filter(None, [node.module])])
        found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return found


def _file_of(module: str, folder: Path) -> Path | None:
    parts = module.split(".")
    if not all(parts):
        return None
    path = folder.joinpath(*parts)
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def _imports_at_run_time(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
        return
    inner: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        inner = node.orelse
    for each in inner:
        if isinstance(each, _HOLDING_STATEMENTS):
            yield from _imports_at_run_time(each)
