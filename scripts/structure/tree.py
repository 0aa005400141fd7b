"""Find the Python files of a tree and sort them into packages.

Product packages are those that a ``pyproject.toml`` of the tree lists or finds, so that the figures follow a
folder that moves. Tests are a group of their own; Python that belongs to neither is ``other``.
"""

from __future__ import annotations

import fnmatch
import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS, OTHER = "tests", "other"
_LEFT_OUT = {"var", "build", "dist", "node_modules", "__pycache__"}


class TreeError(Exception):
    """The tree cannot be measured; the message says why."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Python file and the group it is counted in."""

    path: Path
    place: str
    """Path relative to the tree."""
    group: str
    """Product package, to the depth that was asked for; or TESTS or OTHER."""
    module: str
    """Dotted name by which others import it."""
    text: str

    @property
    def is_product(self) -> bool:
        """Whether the file belongs to a package that is installed."""
        return self.group not in (TESTS, OTHER)


def read_tree(root: Path, depth: int = 1) -> list[SourceFile]:
    """Read every Python file below ``root``. Raises TreeError if no package is found there."""
    packages = product_packages(root)
    if not packages:
        raise TreeError(f"{root}: no pyproject.toml here names a package; pass --tree PATH of a checkout")
    return [_file(root, path, packages, depth) for path in _walk(root, ".py")]


def read_pages(root: Path) -> dict[str, str]:
    """Return the text of the README, of CONTRIBUTING and of the pages under ``docs``, by path."""
    pages = {path.relative_to(root).as_posix(): path for path in _walk(root, ".md")}
    return {
        place: path.read_text(encoding="utf-8")
        for place, path in pages.items()
        if place.startswith("docs/") or place in ("README.md", "CONTRIBUTING.md")
    }


def product_packages(root: Path) -> dict[str, Path]:
    """Return the folder of each top-level package that a pyproject.toml of the tree installs, by name."""
    found: dict[str, Path] = {}
    for file in sorted(_walk(root, "pyproject.toml"), key=lambda path: len(path.parts)):
        if TESTS in file.relative_to(root).parts:
            continue  # the project of a test's own made-up package
        settings = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {}).get("setuptools", {})
        for name, folder in _packages_of(file.parent, settings).items():
            found.setdefault(name, folder)
    return found


def _packages_of(folder: Path, settings: dict[str, object]) -> dict[str, Path]:
    listed = settings.get("packages")
    places = settings.get("package-dir")
    below = str(places.get("", ".")) if isinstance(places, dict) else "."
    if isinstance(listed, list):
        names = sorted({str(name).partition(".")[0] for name in listed})
        return {
            name: folder
            / (places[name] if isinstance(places, dict) and name in places else f"{below}/{name}")
            for name in names
        }
    if not isinstance(listed, dict) or not isinstance(listed.get("find"), dict):
        return {}
    find = listed["find"]
    include, exclude = find.get("include", ["*"]), find.get("exclude", [])
    found = {}
    for where in find.get("where", [below]):
        for path in sorted((folder / where).iterdir()):
            if not (path / "__init__.py").is_file() or path.name.startswith("."):
                continue
            # The patterns are those of dotted names; a folder at the top is one without a dot.
            if _matches(path.name, include) and not _matches(path.name, exclude):
                found[path.name] = path
    return found


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _file(root: Path, path: Path, packages: dict[str, Path], depth: int) -> SourceFile:
    text = path.read_text(encoding="utf-8")
    place = path.relative_to(root)
    for name, folder in packages.items():
        if path.is_relative_to(folder.resolve()):
            inside = path.relative_to(folder.resolve())
            folders = (name, *inside.parts[:-1])
            last = () if path.stem == "__init__" else (path.stem,)
            return SourceFile(
                path, place.as_posix(), ".".join(folders[:depth]), ".".join((*folders, *last)), text
            )
    group = TESTS if TESTS in place.parts or place.name == "conftest.py" else OTHER
    return SourceFile(path, place.as_posix(), group, ".".join(place.with_suffix("").parts), text)


def _walk(root: Path, ending: str) -> Iterator[Path]:
    for folder, below, names in os.walk(root.resolve()):
        below[:] = sorted(
            name
            for name in below
            if not name.startswith(".") and not name.endswith(".egg-info") and name not in _LEFT_OUT
        )
        yield from (Path(folder) / name for name in sorted(names) if name.endswith(ending))
