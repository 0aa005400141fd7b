"""The interpreters with tools that the project's own environment lacks, made on first use by `make`."""

from __future__ import annotations

import fcntl
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_INSTALL_S = 600


def chart_python() -> Path:
    """Return that with Helm's library and the schemas of Kubernetes. Skips where it cannot be made."""
    return _made("chart-tools")


def supply_python() -> Path:
    """Return that with the library of bills of materials. Skips where it cannot be made."""
    return _made("supply-tools")


@cache
def _made(name: str) -> Path:
    folder = ROOT / "var" / name
    folder.parent.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = subprocess.run(
            ["make", "--silent", f"var/{name}/.installed"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
    if made.returncode != 0:
        pytest.skip(f"{name} cannot be installed here: {made.stderr.strip()[-300:]}")
    return folder / "bin" / "python"
