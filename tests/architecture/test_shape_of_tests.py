"""The shape of the tests: sizes of files, and what belongs into ``tests/fakes`` and ``tests/harness``."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
FILES = sorted(path for folder in (TESTS, TESTS.parent / "scripts") for path in folder.rglob("*.py"))
FAKES = sorted((TESTS / "fakes").rglob("*.py"))
STARTS_PROCESSES = {"subprocess", "multiprocessing", "torch.multiprocessing", "uvicorn"}
STARTING_CALLS = {
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
    "os.fork",
    "os.posix_spawn",
    "ray.init",
}
SAMPLED = re.compile(r"\b(?:where_changed|is_whole|sampled)\(\s*\"(\w+)\"")
SHARED_MODULE = re.compile(r"\btests\.(?:fakes|harness)(?:\.[a-z_0-9]+)+")


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def called(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func)


def test_no_file_of_tests_or_scripts_is_longer_than_400_lines():
    lengths = {str(path): len(path.read_text().splitlines()) for path in FILES}
    assert {path: length for path, length in lengths.items() if length > 400} == {}


def test_fakes_start_no_process():
    found = {}
    for path in FAKES:
        tree = ast.parse(path.read_text())
        modules = {
            name
            for name in imported(tree)
            if any(name == each or name.startswith(f"{each}.") for each in STARTS_PROCESSES)
        }
        if starts := modules | (STARTING_CALLS & set(called(tree))):
            found[str(path)] = starts
    assert found == {}


def test_fakes_do_not_use_the_harness():
    assert [str(path) for path in FAKES if "tests.harness." in path.read_text()] == []


def test_shared_modules_that_tests_name_exist():
    """Also in strings, such as the module of a world or of a program."""
    missing = set()
    for path in FILES:
        for name in SHARED_MODULE.findall(path.read_text()):
            file = TESTS.parent / name.replace(".", "/")
            if not (file.is_dir() or file.with_suffix(".py").is_file()):
                missing.add((str(path.relative_to(TESTS.parent)), name))
    assert missing == set()


def test_the_contributors_page_names_each_part_that_runs_where_it_changed():
    used = {name for path in FILES for name in SAMPLED.findall(path.read_text())}
    lines = (TESTS.parent / "CONTRIBUTING.md").read_text().splitlines()
    row = next(line for line in lines if "CONFORMANCE_PARTS=" in line)
    assert "clusters" in used
    assert used <= set(re.findall(r"`(\w+)`", row))
