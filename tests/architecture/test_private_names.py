"""Tests use the product by its public names only, so that they hold for every implementation of a promise."""

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("*.py"))
ALLOWED = {
    "os._exit": "a public function of the standard library",
    "loop._ready": "asyncio has no public way to ask whether anything is ready",
    "context._protected_args": "click's own group reads it to resolve a command",
    "trainer._generate_single_turn": "TRL's, which a benchmark of TRL extends",
    "sandbox_client._calls": "a module of the client that users do not import, and its own unit test does",
    "sandbox_client._answers": "as above",
    "sandbox_client._wire": "as above",
    "sandbox_client._time_limit": "as above",
    "ray._private": "Ray lists the actors of a cluster without a dashboard nowhere else",
    "torch.testing._internal.distributed.fake_pg": "torch's stand-in for a process group",
    "torch.utils._python_dispatch": "documented by torch, with no other name",
    "torch.distributed._tools.fsdp2_mem_tracker": "documented by torch, with no other name",
}
"""Private names of others, with the reason; a private name of the product is given a public one instead."""
BY_NAME = {"setattr", "getattr", "hasattr", "delattr"}


def is_private(name):
    return any(part.startswith("_") and not part.startswith("__") for part in name.split("."))


def private_names(tree):
    """Yield each private name that is read, imported or replaced, with its line."""
    for node in ast.walk(tree):
        for name in names_of(node):
            if is_private(name):
                yield name, node.lineno


def names_of(node):
    """Return what a node reads from another object or module, or the module if that is private itself."""
    if isinstance(node, ast.Attribute) and is_private(node.attr):
        base = ast.unparse(node.value)
        return [] if base in {"self", "cls", "super()"} else [f"{base}.{node.attr}"]
    if isinstance(node, ast.ImportFrom) and node.module not in {None, "__future__"}:
        return [
            node.module if is_private(node.module) else f"{node.module}.{each.name}" for each in node.names
        ]
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in BY_NAME:
        words = [word.value for word in node.args if isinstance(word, ast.Constant)]
        return [word for word in words if isinstance(word, str)]
    return []


def test_tests_use_no_private_names():
    found = {
        f"{path.relative_to(TESTS.parent)}:{line}": name
        for path in FILES
        for name, line in private_names(ast.parse(path.read_text()))
        if name not in ALLOWED
    }
    assert found == {}


def test_every_exception_is_used():
    used = {name for path in FILES for name, _ in private_names(ast.parse(path.read_text()))}
    assert set(ALLOWED) - used == set()
