"""The files of ours that go into a box: the runner, and the box-side modules of one environment.

The same set is copied into an image and laid out for process boxes, so that both run the same code, and
neither can see a catalog, with the ground truth it reads, or the service. A digest over the set names the
image: changed code is another image.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_service.environments.base import EnvironmentSpec

__all__ = ["box_files", "box_modules", "runner_files"]

_RUNNER = ("sandbox_service.runner", "sandbox_service.wire")
"""What every box runs, and the wire format that it speaks."""
_SHARED = ("sandbox_service.environments.actions", "sandbox_service.environments.games")
"""What several environments' worlds are made of."""
_SERVICE_SIDE_FOLDERS = frozenset({"packs", "setup", "__pycache__"})


def box_files(spec: EnvironmentSpec) -> dict[str, bytes]:
    """Relative path in the box to content, sorted. Raises ServiceError(SANDBOX_FAILED) without a world."""
    environment = spec.world_module.rpartition(".")[0]
    found: dict[str, bytes] = {}
    for package in (*_RUNNER, *_SHARED, environment):
        found |= _package(package)
    return dict(sorted(found.items()))


def runner_files() -> dict[str, bytes]:
    """Relative path to content of the runner and its wire format, which every box has."""
    return {path: content for package in _RUNNER for path, content in _package(package).items()}


def box_modules(files: Mapping[str, bytes]) -> list[str]:
    """Importable names of the files; importing them all in the box proves that nothing is missing."""
    return [path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in files]


def _package(name: str) -> dict[str, bytes]:
    """The modules of a package, and the ``__init__`` files above it."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ServiceError(ErrorCode.SANDBOX_FAILED, f"there is no package {name!r} to put into a box")
    folder = Path(next(iter(spec.submodule_search_locations)))
    parts = name.split(".")
    root = folder.parents[len(parts) - 1]
    parents = [root.joinpath(*parts[:depth], "__init__.py") for depth in range(1, len(parts))]
    modules = [path for path in folder.rglob("*.py") if _goes_into_the_box(path.relative_to(folder))]
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in (*parents, *modules)
        if path.is_file()
    }


def _goes_into_the_box(path: Path) -> bool:
    return not (_SERVICE_SIDE_FOLDERS & set(path.parts) or path.name.startswith("catalog"))
