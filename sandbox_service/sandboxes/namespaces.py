"""Run a process box in namespaces of its own, where the kernel allows them.

The box then sees only its own processes, has no network and no System V objects of others, and writes to
bounded private tmpfs; and all of it ends when its first process ends. Where that works too, places that the
box does not need are covered, and its agents see only their own processes. This makes a process box tidy, not
a security boundary: the system's own files stay readable.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

from .covers import prefix_of
from .hardening import SCRATCH, WORKSPACE, tmpfs_options

if TYPE_CHECKING:
    from sandbox_service.environments.base import Provisions

    from .base import SandboxLimits


INSIDE = Path("/mnt")
"""The path of a box's folder inside; the private tmpfs may hide its real path."""
WORKSPACES = INSIDE / "workspaces"
AGENTS = INSIDE / "agents"
"""The packages of agents, each in a folder of its name."""
PROBE_S = 30.0
"""Time of a busy machine for a trial."""
_EMPTY = "nosuid,nodev,noexec,size=4k,nr_inodes=32,mode=755"


@dataclass(frozen=True, slots=True)
class Enclosure:
    """The namespaces of one box, and the mounts in them."""

    box: Path
    """The box's folder, which is mounted at INSIDE."""
    code: Path
    provisions: Provisions | None
    limits: SandboxLimits
    env_uid: int | None
    """The user id of the environment's processes; None where all processes have one."""
    hidden: tuple[Path, ...] | None = None
    """Places to cover; None where neither places nor other users' processes can be hidden."""
    agent_packages: Mapping[str, Path] = field(default_factory=dict)
    """Folders by the names that they have in AGENTS."""
    root_links: tuple[str, ...] = ()
    """Names of links in the root folder, which lead to the folders below ``.task`` in WORKSPACES."""

    def around(self, command: Sequence[str]) -> list[str]:
        """Return the command that starts ``command`` in the namespaces."""
        # --kill-child: killing the outer process kills the inner one, and with it all processes of the box.
        flags = ["--fork", "--kill-child", "--pid", "--mount-proc", "--net", "--ipc"]
        if os.geteuid() != 0:
            flags += ["--user", "--map-root-user"]
        script = "\n".join(["set -e", *self._mounts(command[0]), "cd /", 'exec "$@"'])
        return ["unshare", *flags, "--", "sh", "-c", script, "sh", *command]

    def private_folders(self, limits: SandboxLimits) -> dict[str, str]:
        """Return the mounts that one instance can write: path to options, as mount(8) takes them."""
        return {str(path): tmpfs_options(str(path), limits, self._mode) for path in (WORKSPACES, *SCRATCH)}

    @property
    def _mode(self) -> int:
        # A folder of a single user is private to it, by which the runner knows that it may empty it.
        return 0o700 if self.env_uid is None else 0o1777

    def _mounts(self, interpreter: str) -> list[str]:
        """Return the lines of shell that mount everything.

        The order matters. A new root comes first, since the rest is mounted in it. Then sources are bound,
        because a cover or a tmpfs may hide their paths; then the box's folder goes to INSIDE, with them in
        it; then come the tmpfs and the covers.
        """
        lines = self._new_root() if self.root_links else []
        lines += [_bind(self.code, self.box / "code", whole=False)]
        if self.provisions is not None:
            lines.append(_bind(self.provisions.folder, self.box / "environment", whole=False))
            if self.provisions.operator_data is not None:
                data = self.box / "environment" / "data"
                lines.append(_bind(self.provisions.operator_data, data, whole=False))
        for name, folder in sorted(self.agent_packages.items()):
            place = self.box / "agents" / name
            lines += [f"mkdir {_quoted(place)}", _bind(folder, place, whole=False), _read_only(place)]
        prefix = prefix_of(interpreter)
        around_prefix = [path for path in self.hidden or () if prefix.is_relative_to(path)]
        if around_prefix:
            lines.append(_bind(prefix, self.box / "python"))
        lines.append(_bind(self.box, INSIDE))
        lines.append(
            f"mount -t tmpfs -o {tmpfs_options(WORKSPACE, self.limits, self._mode)} tmpfs {WORKSPACES}"
        )
        lines += [
            f"mount -t tmpfs -o {tmpfs_options(path, self.limits, self._mode)} tmpfs {path}"
            for path in SCRATCH
        ]
        for path in self.hidden or ():
            if path not in around_prefix:
                lines.append(_cover(path, f"ro,{_EMPTY}"))
                continue
            lines += [_cover(path, _EMPTY), f"mkdir -p {_quoted(prefix)}", _bind(INSIDE / "python", prefix)]
            lines.append(f"mount -c -o remount,bind,ro,nosuid,nodev,noexec {_quoted(path)}")
        if self.hidden is not None and self.env_uid is not None:
            lines.append(f"mount -o remount,hidepid=2,gid={self.env_uid} /proc")
        return lines

    def _new_root(self) -> list[str]:
        """Return the lines that replace the root folder by one with the same folders, and the links.

        It is assembled at INSIDE, the one folder that is not taken over: a new root below a folder that is
        would contain itself, and show uncovered what is covered later.
        """
        links = [f"ln -s {WORKSPACES}/.task/{name} {INSIDE}/{name}" for name in self.root_links]
        skipped = "|".join((*self.root_links, INSIDE.name))
        return [
            f"mount -t tmpfs -o nosuid,nodev,mode=755,size=64k root {INSIDE}",
            "for each in /* /.[!.]*; do",
            "name=${each#/}",
            f'case "$name" in {skipped}) continue ;; esac',
            f'if [ -L "$each" ]; then cp -P "$each" {INSIDE}/',
            f'elif [ -d "$each" ]; then mkdir {INSIDE}/"$name"; mount --rbind "$each" {INSIDE}/"$name"; fi',
            "done",
            *links,
            f"mkdir {INSIDE}/{INSIDE.name} {INSIDE}/.old",
            f"cd {INSIDE} && pivot_root . .old",
            "cd / && umount -l /.old && rmdir /.old",
            "mount -o remount,ro,nosuid,nodev /",
        ]


def _bind(source: Path, target: Path, *, whole: bool = True) -> str:
    """Return the command of a bind mount; with ``whole``, of the mounts below the source too."""
    # From the working directory, since root of another user namespace may enter a path that it cannot name.
    return f"cd {_quoted(source)} && mount -c {'--rbind' if whole else '--bind'} . {_quoted(target)}"


def _read_only(path: Path) -> str:
    """Return the command that makes a bind mount read-only."""
    # In a user namespace noexec must stay where the file system has it, and may not be assumed elsewhere.
    place = _quoted(path)
    remount = "mount -c -o remount,bind,ro,nosuid,nodev"
    return f"{remount} {place} 2>/dev/null || {remount},noexec {place}"


def _cover(path: Path, options: str) -> str:
    """Return the command that hides a path: an empty folder over a folder, /dev/null over a file."""
    place = _quoted(path)
    empty = f"mount -c -t tmpfs -o {options} tmpfs {place}"
    return f"if [ -d {place} ]; then {empty}; elif [ -e {place} ]; then mount -c --bind /dev/null {place}; fi"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


async def namespaces_work(enclosure: Enclosure, interpreter: str) -> bool:
    """Return whether a box can be started in namespaces here, by starting one that does nothing.

    Raises ServiceError(SANDBOX_FAILED) when that takes too long, which says nothing about the machine.
    """
    if shutil.which("unshare") is None or any(Path(interpreter).is_relative_to(path) for path in SCRATCH):
        return False
    process = await asyncio.create_subprocess_exec(
        *enclosure.around([interpreter, "-I", "-c", "pass"]),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(PROBE_S):
            return await process.wait() == 0
    except TimeoutError as error:
        detail = f"the trial of namespaces did not end within {PROBE_S:g} s"
        raise ServiceError(ErrorCode.SANDBOX_FAILED, detail) from error
    finally:
        if process.returncode is None:
            process.kill()
            # The kernel kills it at once; if this wait is cancelled, the loop's child watcher reaps it.
            await process.wait()
