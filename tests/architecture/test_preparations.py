"""Preparations of environments run without the service: with the environment's folder and packages alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ENVIRONMENTS = Path(__file__).resolve().parents[2] / "sandbox_service" / "environments"
PREPARED = sorted(path.parents[1].name for path in ENVIRONMENTS.glob("*/setup/prepare.py"))


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imports_at_run_time(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif is_for_types(node):
            assert isinstance(node, ast.If)
            yield from imports_at_run_time(node.orelse)
        else:
            for name in ("body", "orelse", "finalbody", "handlers"):
                inner = getattr(node, name, [])
                yield from imports_at_run_time([each for each in inner if isinstance(each, ast.stmt)])


def imported(module: str, folder: Path) -> set[str]:
    """Return the names of all modules that a module of an environment imports when it runs."""
    file = folder.joinpath(*module.split(".")).with_suffix(".py")
    package = module.rpartition(".")[0]
    found: set[str] = set()
    for node in imports_at_run_time(ast.parse(file.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        base = ".".join(filter(None, (package if node.level else "", node.module)))
        found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("name", PREPARED)
def test_a_preparation_imports_nothing_of_the_service(name: str) -> None:
    folder = ENVIRONMENTS / name
    waiting, seen = ["setup.prepare"], {"setup.prepare"}
    while waiting:
        module = waiting.pop()
        names = imported(module, folder)
        of_the_service = sorted(each for each in names if each.partition(".")[0] == "sandbox_service")
        assert not of_the_service, f"{name}: {module} imports {of_the_service}, which a preparation lacks"
        own = {each for each in names if folder.joinpath(*each.split(".")).with_suffix(".py").is_file()}
        waiting += own - seen
        seen |= own


def test_there_are_preparations_and_some_import_what_runs_in_boxes() -> None:
    assert {"bfcl", "reasoning_gym"} <= set(PREPARED)
    assert "box.generators" in imported("setup.pools", ENVIRONMENTS / "reasoning_gym")
