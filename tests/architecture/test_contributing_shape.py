"""CONTRIBUTING's lists of packages agree with the layers that import-linter checks, and with the imports."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = {"sandbox_service": "The service", "trainer": "The trainer"}
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
PACKAGE = re.compile(r" {8}((?:[a-z_]+/(?:, )?)+)")


def section_of(container):
    return PAGE.partition(f"\n### {SECTIONS[container]}\n")[2].partition("\n#")[0]


def listed_lines(container):
    """Packages of each line of a section's list; deeper folders are left out."""
    matches = map(PACKAGE.match, section_of(container).splitlines())
    return [re.findall(r"[a-z_]+", match[1]) for match in matches if match]


def layer_numbers(container):
    contract = next(one for one in CONTRACTS if one.get("containers") == [container])
    return {
        name: number for number, layer in enumerate(contract["layers"]) for name in re.findall(r"\w+", layer)
    }


def imports(path, module):
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        if any(name.split(".")[0] == module for name in names):
            return True
    return False


@pytest.mark.parametrize("container", SECTIONS)
def test_each_package_is_listed_once(container):
    listed = [name for line in listed_lines(container) for name in line]
    folders = {path.parent.name for path in (ROOT / container).glob("*/__init__.py")}
    assert sorted(listed) == sorted(folders)


@pytest.mark.parametrize("container", SECTIONS)
def test_the_packages_stand_in_the_order_of_the_layers(container):
    numbers = layer_numbers(container)
    lines = [[numbers[name] for name in line] for line in listed_lines(container)]
    assert all(len(set(line)) == 1 for line in lines), "packages on one line are of one layer"
    assert [line[0] for line in lines] == sorted(line[0] for line in lines)


@pytest.mark.parametrize(
    ("container", "module", "beginning"),
    [
        ("sandbox_service", "ray", "- Ray appears in"),
        ("trainer", "ray", "- Ray appears in"),
        ("trainer", "torch", "- torch is imported in"),
    ],
)
def test_the_places_that_import_a_large_package_are_listed(container, module, beginning):
    line = next(line for line in section_of(container).splitlines() if line.startswith(beginning))
    listed = set(re.findall(r"`([a-z_/.]+)`", line.partition(". ")[0])) - {"deploy"}
    importing = {
        path.relative_to(ROOT / container).as_posix()
        for path in (ROOT / container).rglob("*.py")
        if imports(path, module)
    }
    covered = {file: {file, file.partition("/")[0]} & listed for file in importing}
    assert [file for file, places in covered.items() if not places] == []
    assert listed == set().union(*covered.values())
