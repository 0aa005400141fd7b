"""Choose the files of this machine that a process box does not need, to be hidden by empty folders.

Those are home directories, the service's own code and packages, prepared environments with their ground
truth, stores and state folders. System programs and the interpreter with its standard library stay visible.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from sandbox_service.environments.provisions import default_root

from .hardening import SCRATCH

_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/mnt", "/proc", "/sys", "/usr/bin", "/usr/lib")
_HOMES = ("/home", "/root")


def own_places() -> list[Path]:
    """Return the folders of this process and its user: homes, code, packages, working directory."""
    package = Path(__file__).resolve().parents[2]
    places = [*map(Path, _HOMES), package, default_root().parent]
    places += [Path(sysconfig.get_path(kind)) for kind in ("purelib", "platlib")]
    if sys.prefix != sys.base_prefix:
        places.append(Path(sys.prefix))
    for ask in (Path.home, Path.cwd):
        try:
            places.append(ask())
        except (OSError, RuntimeError):
            continue
    return places


def prefix_of(interpreter: str) -> Path:
    """Return the folder with an interpreter's standard library and programs."""
    own = Path(sys.executable).resolve()
    return Path(sys.base_prefix).resolve() if Path(interpreter) == own else Path(interpreter).parents[1]


def coverable(wanted: Iterable[Path], interpreter: str) -> tuple[Path, ...]:
    """Return those of ``wanted`` that exist and that a box does not need, outer ones first.

    A folder around the interpreter is included: the box mounts the interpreter again below the cover.
    """
    prefix = prefix_of(interpreter)
    found: list[Path] = []
    for path in sorted(
        {Path(os.path.realpath(each)) for each in wanted}, key=lambda each: (len(each.parts), each)
    ):
        needed = any(Path(each).is_relative_to(path) for each in (*_SYSTEM, *SCRATCH)) or path == prefix
        hidden_anyway = any(path.is_relative_to(each) for each in SCRATCH)
        covered = any(path.is_relative_to(each) for each in found) and not path.is_relative_to(prefix)
        if path.exists() and not (needed or hidden_anyway or covered):
            found.append(path)
    return tuple(found)
