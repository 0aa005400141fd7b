"""Collect the files that go into a box: the runner, and the ``box`` folders of one environment.

The list is an allow-list: of an environment only its folder ``box`` is copied, and of their shared code only
``shared/box``. Catalogues, ground truth and set-up lie beside these folders and stay in the service. The
packages above a folder are created empty, so that no other file is copied with them.

The same files are copied into an image and laid out for process boxes, so that both run the same code. A
digest of them names the image: changed code is another image.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from sandbox_service.environments.base import EnvironmentSpec


_RUNNER = ("sandbox_service.runner", "sandbox_service.wire")
"""Packages that every box runs: the runner, and the wire format."""
_SHARED = "sandbox_service.environments.shared.box"
"""Modules that the worlds of several environments use."""
_BOX_FOLDER = "box"


def box_files(spec: EnvironmentSpec) -> dict[str, bytes]:
    """Return the content of a box by its path in the box, sorted.

    Raises ServiceError(SANDBOX_FAILED) when there is no world, or when it is not in a folder ``box``.
    """
    package = spec.world_module.rpartition(".")[0]
    if package.rpartition(".")[2] != _BOX_FOLDER:
        detail = (
            f"the world {spec.world_module} of {spec.name} is not in a folder named {_BOX_FOLDER!r}; "
            "only such folders are copied into boxes, so move the world and all that it imports into one"
        )
        raise ServiceError(ErrorCode.SANDBOX_FAILED, detail)
    return _content(*_RUNNER, _SHARED, package)


def source_folder(spec: EnvironmentSpec) -> Path:
    """Return the folder of the top-level package that the world of an environment is in."""
    world = spec.world_module.rpartition(".")[0]
    return _folder_of(world).parents[world.count(".") - 1] if "." in world else _folder_of(world)


def runner_files() -> dict[str, bytes]:
    """Return the runner and its wire format, which every box has: content by path in the box, sorted."""
    return _content(*_RUNNER)


def box_modules(files: Mapping[str, bytes]) -> list[str]:
    """Return the importable names of the files; importing them all in the box proves that none is missing."""
    modules = (path.removesuffix(".py") for path in files if path.endswith(".py"))
    return [path.removesuffix("/__init__").replace("/", ".") for path in modules]


def _content(*packages: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for package in packages:
        found |= _package(package)
    return dict(sorted(found.items()))


def _package(name: str) -> dict[str, bytes]:
    """Return all files of a package, and an empty ``__init__.py`` for each package above it."""
    folder = _folder_of(name)
    parts = name.split(".")
    parents = {"/".join([*parts[:depth], "__init__.py"]): b"" for depth in range(1, len(parts))}
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    root = folder.parents[len(parts) - 1]
    return parents | {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def _folder_of(package: str) -> Path:
    try:
        spec = find_spec(package)
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise ServiceError(ErrorCode.SANDBOX_FAILED, f"a box needs the package {package!r}: it is missing")
    return Path(next(iter(spec.submodule_search_locations)))
