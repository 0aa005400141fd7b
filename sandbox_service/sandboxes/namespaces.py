"""A process box of its own: namespaces, where the kernel lets us have them, around the runner.

With them the box sees only its own processes, has no network and no System V objects of others, and writes
to bounded private tmpfs; and it ends whole when its first process ends. Where that works too, places that it
need not see are covered, and its agents see no processes but their own. They make a process box tidy, not a
security boundary: the system's own files stay readable.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .covers import prefix_of
from .hardening import SCRATCH, WORKSPACE, tmpfs_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_service.environments.base import Provisions

    from .base import SandboxLimits

__all__ = ["INSIDE", "Enclosure", "namespaces_work"]

INSIDE = Path("/mnt")
"""Where a box finds its own folder; the private tmpfs may hide the place where it really is."""
WORKSPACES = INSIDE / "workspaces"
_PROBE_S = 5.0
_EMPTY = "nosuid,nodev,noexec,size=4k,nr_inodes=32,mode=755"


@dataclass(frozen=True, slots=True)
class Enclosure:
    """The namespaces of one box, and what is mounted in them."""

    box: Path
    """Its folder, which it finds at INSIDE."""
    code: Path
    provisions: Provisions | None
    limits: SandboxLimits
    env_uid: int | None
    """The user id of the environment's processes; None where all have one."""
    hidden: tuple[Path, ...] | None = None
    """Places that are covered; None where neither they nor the processes of others can be."""

    def around(self, command: Sequence[str]) -> list[str]:
        """Return the command that starts ``command`` in the namespaces."""
        # --kill-child: whoever kills the outer process kills the inner one, and with it the box.
        flags = ["--fork", "--kill-child", "--pid", "--mount-proc", "--net", "--ipc"]
        if os.geteuid() != 0:
            flags += ["--user", "--map-root-user"]
        script = "\n".join(["set -e", *self._mounts(command[0]), "cd /", 'exec "$@"'])
        return ["unshare", *flags, "--", "sh", "-c", script, "sh", *command]

    def private_folders(self, limits: SandboxLimits) -> dict[str, str]:
        """Return the mounts of what one instance can write: path to options, as mount(8) takes them."""
        return {str(path): tmpfs_options(str(path), limits, self._mode) for path in (WORKSPACES, *SCRATCH)}

    @property
    def _mode(self) -> int:
        # What one user alone uses is private to it, which is how the runner knows that it may empty it.
        return 0o700 if self.env_uid is None else 0o1777

    def _mounts(self, interpreter: str) -> list[str]:
        """Shell lines. Sources come first: a cover or a tmpfs may come to lie over their paths."""
        lines = [_bind(self.code, self.box / "code", whole=False)]
        if self.provisions is not None:
            lines.append(_bind(self.provisions.folder, self.box / "environment", whole=False))
            if self.provisions.operator_data is not None:
                data = self.box / "environment" / "data"
                lines.append(_bind(self.provisions.operator_data, data, whole=False))
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


def _bind(source: Path, target: Path, *, whole: bool = True) -> str:
    """``whole``: with what is mounted below the source."""
    # By the working directory, since another user's root cannot always name the path that it can enter.
    return f"cd {_quoted(source)} && mount -c {'--rbind' if whole else '--bind'} . {_quoted(target)}"


def _cover(path: Path, options: str) -> str:
    """An empty folder over a folder, /dev/null over a file; nothing over what is gone by now."""
    place = _quoted(path)
    empty = f"mount -c -t tmpfs -o {options} tmpfs {place}"
    return f"if [ -d {place} ]; then {empty}; elif [ -e {place} ]; then mount -c --bind /dev/null {place}; fi"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


async def namespaces_work(enclosure: Enclosure, interpreter: str) -> bool:
    """Whether a box can be started in namespaces here, found out by starting one that does nothing."""
    if shutil.which("unshare") is None or any(Path(interpreter).is_relative_to(path) for path in SCRATCH):
        return False
    process = await asyncio.create_subprocess_exec(
        *enclosure.around([interpreter, "-I", "-c", "pass"]),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_PROBE_S):
            return await process.wait() == 0
    except TimeoutError:
        return False
    finally:
        if process.returncode is None:
            process.kill()
            # The kernel ends it at once; a second cancellation here leaves it to the event loop's watcher.
            await process.wait()
