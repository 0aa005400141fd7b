"""Fetch the source distributions, and lay out each package as its tasks need it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

_FETCH_S = 300.0
_LARGEST = 256 * 1024
"""Bytes of a file beside the tests that is still copied; larger ones are data of benchmarks."""
_LICENCES = ("LICENSE*", "LICENCE*", "COPYING*", "AUTHORS*")


@dataclass(frozen=True, slots=True)
class Package:
    """One package that defects are put into."""

    name: str
    version: str
    licence: str
    sources: tuple[str, ...]
    """Its modules and folders, relative to the tree."""
    tests: tuple[str, ...]
    """The files and folders of its tests, likewise."""
    split: str
    tasks: int
    """Tasks to generate at most."""
    root: str = "."
    """The folder of the sources in the distribution."""
    left_out: tuple[str, ...] = ()
    """Files of its tests that cannot pass in a box, relative to the tree."""


def read_packages(path: Path) -> list[Package]:
    """Return the packages of ``packages.toml``."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Package(
            name,
            table["version"],
            table["licence"],
            tuple(table["sources"]),
            tuple(table["tests"]),
            table["split"],
            table["tasks"],
            table.get("root", "."),
            tuple(table.get("left_out", ())),
        )
        for name, table in tables.items()
    ]


def fetch(package: Package, pins: Path, packages: Path, folder: Path) -> None:
    """Download a source distribution by its line in ``pins``.

    Raises CalledProcessError or TimeoutExpired; pip says on its output why.
    """
    named = re.compile(rf"{re.escape(package.name)}==.*")
    pin = folder / f"{package.name}.txt"
    lines = pins.read_text(encoding="utf-8").splitlines()
    pin.write_text("".join(f"{line}\n" for line in lines if named.fullmatch(line)), encoding="utf-8")
    # pip asks the build backend for the metadata, so the backends are among our packages.
    words = [sys.executable, "-s", "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    words += ["--no-build-isolation", "--require-hashes", "--dest", str(folder), "--requirement", str(pin)]
    settings = {**os.environ, "PYTHONPATH": str(packages), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    subprocess.run(words, check=True, timeout=_FETCH_S, env=settings, stdin=subprocess.DEVNULL)


def lay_out(package: Package, distributions: Path, folder: Path) -> tuple[Path, Path]:
    """Unpack a distribution; return its package's tree, and the tree of the tests and of all other files."""
    stem = package.name.replace("-", "_")
    archive = distributions / f"{stem}-{package.version}.tar.gz"
    with tarfile.open(archive) as file:
        # The archive is one whose digest we know; the filter, where this Python has it, refuses odd members.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        file.extractall(folder / "unpacked", **safely)  # type: ignore[arg-type]
    top = folder / "unpacked" / f"{stem}-{package.version}"
    visible, hidden = folder / "visible", folder / "hidden"
    visible.mkdir()
    hidden.mkdir()
    for source in package.sources:
        _copy(top / package.root / source, visible / source)
    for test in package.tests:
        for origin in (top / package.root / test, top / test):
            if origin.exists():
                _copy(origin, hidden / test)
                break
        # Tests inside of the package are hidden like all others.
        _remove(visible / test)
    for name in package.left_out:
        _remove(hidden / name)
    for source in package.sources:
        _take_data(visible / source, visible, hidden)
    for pattern in _LICENCES:
        for path in sorted(top.glob(pattern)):
            _copy(path, visible / path.name)
    return visible, hidden


def _copy(origin: Path, target: Path) -> None:
    if origin.is_dir():
        shutil.copytree(origin, target, dirs_exist_ok=True, ignore=_unwanted, symlinks=False)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(origin, target)


def _unwanted(folder: str, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if name == "__pycache__"
        or name.endswith((".pyc", ".c", ".so"))
        or (not name.endswith(".py") and Path(folder, name).is_file() and _too_large(Path(folder, name)))
    }


def _too_large(path: Path) -> bool:
    return path.stat().st_size > _LARGEST


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _take_data(source: Path, visible: Path, hidden: Path) -> None:
    """Copy a package's data files to the hidden tree too: only Python files are taken from the agent."""
    for path in source.rglob("*") if source.is_dir() else ():
        if path.is_file() and path.suffix != ".py":
            _copy(path, hidden / path.relative_to(visible))
