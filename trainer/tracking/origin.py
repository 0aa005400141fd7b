"""``origin.json``: where a run was started, with which code, and when."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

__all__ = ["Origin", "read_origin", "write_origin"]

_FILE = "origin.json"
_PACKAGE = "training-sandbox"
_GIT_S = 10.0


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of the start of a run."""

    host: str
    version: str
    """Of the package."""
    commit: str
    """Of the checkout, with a ``+`` when files differ from it; empty without one."""
    started: float
    """Unix seconds of the first start."""


def write_origin(folder: Path) -> None:
    """Write it into a run's folder, unless an earlier start has."""
    file = folder / _FILE
    if file.exists():
        return
    origin = Origin(platform.node(), _version(), _commit(Path(__file__).parent), time.time())
    file.write_text(json.dumps(asdict(origin), indent=2) + "\n", encoding="utf-8")


def read_origin(folder: Path) -> Origin | None:
    """What the folder says; None when it says nothing."""
    try:
        return Origin(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _version() -> str:
    try:
        return metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        return ""


def _commit(source: Path) -> str:
    """The commit of the checkout that holds our source; a package that merely lies in one has none."""
    if not (source.parents[1] / ".git").exists():
        return ""
    command = ["git", "-C", str(source), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
