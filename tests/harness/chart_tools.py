"""The Python with Helm's library and the schemas of Kubernetes, made on first use by `make`."""

from __future__ import annotations

import fcntl
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_FOLDER = ROOT / "var" / "chart-tools"
_INSTALL_S = 600


@cache
def chart_python() -> Path:
    """Return it. Skips the test if its packages cannot be installed here."""
    _FOLDER.parent.mkdir(exist_ok=True)
    with _FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = subprocess.run(
            ["make", "--silent", "var/chart-tools/.installed"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
    if made.returncode != 0:
        pytest.skip(f"the tools of charts cannot be installed here: {made.stderr.strip()[-300:]}")
    return _FOLDER / "bin" / "python"
