"""Virtual environments of the agents in examples/: each has its pinned packages and the light client."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

__all__ = ["AGENTS", "agent_python"]

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "clients"
AGENTS = tuple(sorted(file.parent.name for file in (ROOT / "examples").glob("*/requirements.txt")))
_FOLDER = ROOT / "var" / "agents"
_INSTALL_S = 900


@cache
def agent_python(name: str) -> Path:
    """Return the Python of an agent's environment, made on first use. Skips the test if it cannot be made."""
    needed = ROOT / "examples" / name / "requirements.txt"
    wanted = hashlib.sha256(needed.read_bytes() + (CLIENTS / "pyproject.toml").read_bytes()).hexdigest()
    label = name.replace("/", "-")
    folder = _FOLDER / f"{label}-{wanted[:12]}"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / f"{label}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _install(name, folder, needed)
            (folder / "installed").touch()
    return folder / "bin" / "python"


def _install(name: str, folder: Path, needed: Path) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    settings = dict(os.environ)
    if "PIP_FIND_LINKS" in settings:
        settings.setdefault("UV_FIND_LINKS", settings["PIP_FIND_LINKS"])
    made = [uv, "venv", "--quiet", "--python", sys.executable, str(folder)]
    filled = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    for words in (made, [*filled, "-r", str(needed), "-e", str(CLIENTS)]):
        done = subprocess.run(
            words, env=settings, capture_output=True, text=True, timeout=_INSTALL_S, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"the packages of {name} cannot be installed here: {done.stderr.strip()[-500:]}")
