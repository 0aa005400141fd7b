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

__all__ = ["AGENTS", "agent_python", "newer_python"]

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "clients"
AGENTS = tuple(sorted(file.parent.name for file in (ROOT / "examples").glob("*/requirements.txt")))
_FOLDER = ROOT / "var" / "agents"
_INSTALL_S = 900
_PROBE_S = 30


@cache
def newer_python() -> Path:
    """Return a Python 3.12 or newer of this machine, for packages that need one. Skips the test without."""
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    in_path = [Path(found) for name in ("python3.12", "python3.13") if (found := shutil.which(name))]
    for python in (*in_path, *versions.glob("3.1[23].*/bin/python3")):
        # What is found may be a shim of a version that is not installed.
        probed = subprocess.run([python, "-c", ""], capture_output=True, timeout=_PROBE_S, check=False)
        if probed.returncode == 0:
            return python
    pytest.skip("there is no Python 3.12 or 3.13 on this machine")


@cache
def agent_python(name: str, python: Path = Path(sys.executable)) -> Path:
    """Return the Python of an agent's environment, made on first use. Skips the test if it cannot be made.

    Packages that ``overrides.txt`` beside the agent's requirements names may have other versions than the
    requirements' own requirements say.
    """
    needed = ROOT / "examples" / name / "requirements.txt"
    wanted = hashlib.sha256(needed.read_bytes() + (CLIENTS / "pyproject.toml").read_bytes()).hexdigest()
    label = name.replace("/", "-")
    folder = _FOLDER / f"{label}-{wanted[:12]}"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with (_FOLDER / f"{label}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _install(name, folder, needed, python)
            (folder / "installed").touch()
    return folder / "bin" / "python"


def _install(name: str, folder: Path, needed: Path, python: Path) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    settings = dict(os.environ)
    if "PIP_FIND_LINKS" in settings:
        settings.setdefault("UV_FIND_LINKS", settings["PIP_FIND_LINKS"])
    made = [uv, "venv", "--quiet", "--python", str(python), str(folder)]
    filled = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    overrides = needed.with_name("overrides.txt")
    if overrides.exists():
        filled += ["--override", str(overrides)]
    for words in (made, [*filled, "-r", str(needed), "-e", str(CLIENTS)]):
        done = subprocess.run(
            words, env=settings, capture_output=True, text=True, timeout=_INSTALL_S, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"the packages of {name} cannot be installed here: {done.stderr.strip()[-500:]}")
