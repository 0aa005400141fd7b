"""gVisor's command ``runsc``: find it, check its version, and start, kill and delete containers with it.

There is no daemon: each container belongs to a process ``runsc run``, a child of the service, and its state
lies in a folder of the service's own.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError, TrialTimeoutError

from .base import SandboxLimits
from .oci_bundle import BundleRequest, write_bundle
from .state import remove_folder

if TYPE_CHECKING:
    from pathlib import Path

    from .state import StateDir


OLDEST = 20240729
"""The first release that was tested; in one of 2022 ``ls FOLDER`` fails, and there is no systrap."""
INSTALL_HINT = "install gVisor (https://gvisor.dev/docs/user_guide/install/), or run `make runsc`"
ASK_S = 20.0
TRIAL_S = 60.0


@dataclass(frozen=True, slots=True)
class Runsc:
    """One installation, and the state of its containers on this node."""

    program: str
    folder: Path
    """The folder of the containers' state."""
    platform: str
    """gVisor's way to intercept system calls: systrap, kvm or ptrace."""
    rootless: bool
    cgroups: bool = False
    """Whether containers get control groups, which bound memory and CPU time."""

    def command(self, *words: str) -> list[str]:
        """Return the command line of a subcommand."""
        flags = [
            f"--root={self.folder}",
            f"--platform={self.platform}",
            "--network=none",
            # The runner listens on a socket in a folder of the host; agents cannot enter the folder.
            "--host-uds=create",
        ]
        if self.rootless:
            flags.append("--rootless")
        if not self.cgroups:
            flags.append("--ignore-cgroups")
        return [self.program, *flags, *words]

    def kill(self, name: str) -> str:
        """Kill all processes of a container. Returns what ``runsc`` says if it fails, or the box is gone."""
        return self._ask("kill", name, "KILL")

    def delete(self, name: str) -> str:
        """Remove a container that was killed. Returns what ``runsc`` says if it fails."""
        return self._ask("delete", "--force", name)

    def names(self) -> list[str]:
        """Return the names of all containers of this node."""
        done = self._run("list", "--quiet")
        return done.stdout.split() if done.returncode == 0 else []

    def _ask(self, *words: str) -> str:
        try:
            done = self._run(*words)
        except subprocess.TimeoutExpired:
            return f"runsc {words[0]} did not end within {ASK_S:g} s"
        return done.stderr.strip() if done.returncode else ""

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )


async def open_runsc(program: str | None, state: StateDir, platform: str, root: Path) -> Runsc:
    """Find the installation, and find out by a trial box whether it runs here, and with control groups.

    Raises ServiceError(SANDBOX_FAILED) when no box can be started, and TrialTimeoutError.
    """
    folder = state.path / "runsc"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = await asyncio.to_thread(installed_runsc, program)
    found = Runsc(path, folder, platform, rootless=os.geteuid() != 0)
    trials = [replace(found, cgroups=True), found] if not found.rootless else [found]
    for trial in trials:
        said = await asyncio.to_thread(_try, trial, state, root)
        if said is None:
            return trial
    detail = f"gVisor cannot start a box here with the platform {platform}: {said}"
    raise ServiceError(ErrorCode.SANDBOX_FAILED, detail)


def _try(runsc: Runsc, state: StateDir, root: Path) -> str | None:
    """Run a box that does nothing; return the last line that it says if it fails.

    Raises TrialTimeoutError.
    """
    name = f"trial-{secrets.token_hex(4)}"
    bundle = state.boxes / name
    socket_dir = state.make_socket_dir(name, None, None)
    cgroup = f"/training-sandbox/{name}" if runsc.cgroups else None
    request = BundleRequest(root, ("/bin/true",), socket_dir, state.code, SandboxLimits(), cgroup=cgroup)
    try:
        write_bundle(bundle, request)
        done = subprocess.run(
            runsc.command("run", f"--bundle={bundle}", name),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TRIAL_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        runsc.kill(name)
        detail = f"gVisor's trial box did not end within {TRIAL_S:g} s: the machine is too busy"
        raise TrialTimeoutError(detail) from error
    else:
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        return None if done.returncode == 0 else said
    finally:
        runsc.delete(name)
        remove_folder(bundle)
        remove_folder(socket_dir)


def installed_runsc(program: str | None) -> str:
    """Return the path of the program to use: ``program``, or ``runsc`` in PATH.

    Raises ServiceError(SANDBOX_FAILED) when there is none, or when it is too old, and TrialTimeoutError.
    """
    found = shutil.which(program or "runsc")
    if found is None:
        where = f"{program} does not exist" if program else "runsc is not in PATH"
        raise ServiceError(ErrorCode.SANDBOX_FAILED, f"no gVisor: {where}; {INSTALL_HINT}")
    try:
        said = subprocess.run(
            [found, "--version"], capture_output=True, text=True, timeout=ASK_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TrialTimeoutError(
            f"{found} --version did not end within {ASK_S:g} s: this machine is too busy to try gVisor"
        ) from error
    except OSError as error:
        raise ServiceError(
            ErrorCode.SANDBOX_FAILED, f"no gVisor: {found} --version fails: {error}"
        ) from error
    release = release_of(said.stdout)
    if release is not None and release < OLDEST:
        detail = f"{found} is gVisor's release {release}, which is older than {OLDEST}; {INSTALL_HINT}"
        raise ServiceError(ErrorCode.SANDBOX_FAILED, detail)
    return found


def release_of(text: str) -> int | None:
    """Return the date of a release, such as 20240729, from what ``runsc --version`` prints; None without."""
    found = re.search(r"version \D*(?:0\.0~)?(\d{8})", text)
    return int(found.group(1)) if found else None
