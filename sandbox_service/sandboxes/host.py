"""What this machine offers process boxes: an interpreter, user ids of their own, namespaces."""

from __future__ import annotations

import logging
import os
import secrets
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .namespaces import namespaces_work
from .state import remove_folder

if TYPE_CHECKING:
    from .base import SandboxLimits
    from .state import StateDir

__all__ = ["Host", "look_around"]

log = logging.getLogger(__name__)

_SYSTEM_PYTHON = Path("/usr/bin/python3")
_OLDEST = (3, 11)
_BUILT_FOR = (3, 11)
"""What the environments' packages are built for."""


@dataclass(frozen=True, slots=True)
class Host:
    """How process boxes are made here."""

    interpreter: str
    drops_uids: bool
    """Agents get user ids of their own."""
    namespaces: bool
    """Boxes get namespaces of their own."""


async def look_around(state: StateDir, code: Path, limits: SandboxLimits, *, packages: bool = False) -> Host:
    """Find out, and warn once of what a process box is not; ``packages`` are built for one version."""
    interpreter, drops_uids = choose_interpreter(state.path, packages=packages)
    probe = state.make_box_dir(f"probe-{secrets.token_hex(4)}", drops_uids)
    try:
        namespaces = await namespaces_work(probe, code, limits, interpreter)
    finally:
        remove_folder(probe)
    log.warning(
        "process sandboxes are no security boundary: code that a model writes can read this machine's files "
        "(own user ids: %s, own namespaces: %s). Use Docker for models that you do not trust.",
        "yes" if drops_uids else "no",
        "yes" if namespaces else "no",
    )
    return Host(interpreter, drops_uids, namespaces)


def choose_interpreter(state: Path, *, packages: bool = False) -> tuple[str, bool]:
    """The Python of the boxes, and whether their agents can be given user ids of their own.

    That takes root, and an interpreter and a state folder that other users can reach. The interpreter behind
    a virtual environment is taken, so that the service's packages are not in the box.
    """
    own = Path(sys.executable).resolve()
    if os.geteuid() != 0:
        return str(own), False
    if reachable(state):
        for candidate in (own, _SYSTEM_PYTHON):
            if reachable(candidate) and _serves(candidate, packages):
                return str(candidate), True
    return str(own), False


def reachable(path: Path) -> bool:
    """Whether users other than the owner can come to a path."""
    try:
        real = path.resolve(strict=True)
        return all(step.stat().st_mode & stat.S_IXOTH for step in (real, *real.parents))
    except OSError:
        return False


def _serves(interpreter: Path, packages: bool) -> bool:
    wrong = f"sys.version_info[:2] != {_BUILT_FOR}" if packages else f"sys.version_info < {_OLDEST}"
    question = f"import sys; sys.exit({wrong})"
    try:
        return subprocess.run([interpreter, "-I", "-c", question], timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
