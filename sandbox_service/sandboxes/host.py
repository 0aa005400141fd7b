"""Detect what this machine offers process boxes: interpreter, user ids, and protections of the kernel."""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.digests import digest
from sandbox_service.errors import ServiceError

from .content import runner_files
from .covers import coverable, own_places
from .namespaces import PROBE_S, Enclosure, namespaces_work
from .seccomp import filter_program
from .state import StateDir, remove_folder

if TYPE_CHECKING:
    from .base import SandboxLimits


_SYSTEM_PYTHON = Path("/usr/bin/python3")
_OLDEST = (3, 11)
_CONFINEMENT_PROBE = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from sandbox_service.runner.kernel import privileges
from sandbox_service.runner.kernel import confinement
privileges.refuse_new_privileges()
if confinement.keep_abstract_sockets_apart():
    print("apart", flush=True)
confinement.confine(bytes.fromhex(sys.argv[1]))
print("filtered")
"""
_BUILT_FOR = (3, 11)
"""The Python version for which the environments' packages are built."""


@dataclass(frozen=True, slots=True)
class Host:
    """The means of this machine for process boxes."""

    interpreter: str
    drops_uids: bool
    """Agents get user ids of their own."""
    namespaces: bool
    """Boxes get namespaces of their own."""
    system_calls: bytes | None = field(default=None, repr=False)
    """The filter of system calls for agents and environment; None where the kernel cannot filter."""
    abstract_sockets_apart: bool = False
    """Agents cannot reach abstract sockets of other processes."""
    hidden: tuple[Path, ...] | None = None
    """Places of this machine that are empty in boxes; None where they cannot be covered."""

    def protections(self) -> dict[str, bool]:
        """Return what keeps agents from this machine and from each other, and whether it is active here."""
        return {
            "own user ids": self.drops_uids,
            "own namespaces": self.namespaces,
            "own bounded folders": self.namespaces,
            "filtered system calls": self.system_calls is not None,
            "own abstract sockets": self.abstract_sockets_apart,
            "covered files of service and users": self.hidden is not None,
            "hidden processes of others": self.hidden is not None and self.drops_uids,
        }


async def detect_host(
    state: StateDir,
    code: Path,
    limits: SandboxLimits,
    *,
    packages: bool = False,
    secret: Sequence[Path] = (),
) -> Host:
    """Detect how process boxes are made here, and what protects the machine from them.

    ``packages`` are built for one version of the interpreter; ``secret`` are files and folders that boxes
    must not see, besides those of this process and its user. Raises ServiceError(SANDBOX_FAILED) when a trial
    takes too long: a busy moment is no reason to go without a protection.
    """
    interpreter, drops_uids = await asyncio.to_thread(choose_interpreter, state.path, packages=packages)
    probe = state.make_box_dir(f"probe-{secrets.token_hex(4)}", drops_uids)
    hidden: tuple[Path, ...] | None = coverable([*own_places(), state.path, *secret], interpreter)
    try:
        enclosure = Enclosure(probe, code, None, limits, 1 if drops_uids else None, hidden)
        namespaces = await namespaces_work(enclosure, interpreter)
        # A kernel may allow namespaces but not the covers, or another /proc: try once more without them.
        if not namespaces:
            hidden = None
            namespaces = await namespaces_work(replace(enclosure, hidden=None), interpreter)
        filtered, apart = await asyncio.to_thread(_confinement, interpreter, code)
    finally:
        remove_folder(probe)
    return Host(interpreter, drops_uids, namespaces, filter_program() if filtered else None, apart, hidden)


async def protections_here(state_dir: Path | None, limits: SandboxLimits) -> dict[str, bool]:
    """Return ``Host.protections`` of this machine, detected without a service."""
    state = StateDir.open(state_dir, f"look-{secrets.token_hex(4)}")
    try:
        files = runner_files()
        code = await asyncio.to_thread(state.lay_out, digest(files), files)
        return (await detect_host(state, code, limits)).protections()
    finally:
        state.close()
        remove_folder(state.path)


def _confinement(interpreter: str, code: Path) -> tuple[bool, bool]:
    """Return whether system calls can be filtered and abstract sockets kept apart, by trying both."""
    program = filter_program()
    if program is None:
        return False, False
    try:
        tried = subprocess.run(
            [interpreter, "-I", "-B", "-c", _CONFINEMENT_PROBE, str(code), program.hex()],
            capture_output=True,
            timeout=PROBE_S,
            check=False,
            env={},
            cwd="/",
        )
    except OSError:
        return False, False
    except subprocess.TimeoutExpired as error:
        detail = f"the trial of the filter of system calls did not end within {PROBE_S:g} s"
        raise ServiceError(ErrorCode.SANDBOX_FAILED, detail) from error
    return b"filtered" in tried.stdout, b"apart" in tried.stdout


def choose_interpreter(state: Path, *, packages: bool = False) -> tuple[str, bool]:
    """Return the Python of the boxes, and whether their agents can have user ids of their own.

    Those need root, and an interpreter and a state folder that other users can reach. The interpreter behind
    a virtual environment is used, so that the service's packages are not in the box. Raises
    ServiceError(SANDBOX_FAILED) when an interpreter takes too long to start.
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
    """Return whether users other than the owner can reach a path."""
    try:
        real = path.resolve(strict=True)
        return all(step.stat().st_mode & stat.S_IXOTH for step in (real, *real.parents))
    except OSError:
        return False


def _serves(interpreter: Path, packages: bool) -> bool:
    wrong = f"sys.version_info[:2] != {_BUILT_FOR}" if packages else f"sys.version_info < {_OLDEST}"
    question = f"import sys; sys.exit({wrong})"
    try:
        tried = subprocess.run([interpreter, "-I", "-c", question], timeout=PROBE_S, check=False)
    except OSError:
        return False
    except subprocess.TimeoutExpired as error:
        detail = f"{interpreter} did not start within {PROBE_S:g} s"
        raise ServiceError(ErrorCode.SANDBOX_FAILED, detail) from error
    return tried.returncode == 0
