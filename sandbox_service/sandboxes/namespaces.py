"""A process box of its own: namespaces, where the kernel lets us have them, around the runner.

With them the box sees only its own processes, has no network and no System V objects of others, and writes
to bounded private tmpfs; and it ends whole when its first process ends. They make a process box tidy, not a
security boundary: the host's files stay readable.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from .hardening import SCRATCH, WORKSPACE, tmpfs_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_service.environments.base import Provisions

    from .base import SandboxLimits

__all__ = ["INSIDE", "namespaces_work", "wrapped"]

INSIDE = Path("/mnt")
"""Where a box finds its own folder; the private tmpfs may hide the place where it really is."""
_PROBE_S = 5.0

# $1 the box's folder, $2 its code, $3 the environment's prepared folder and $4 the operator's data, each
# possibly empty, $5... the command behind the mounts. The folder is the working directory while the mounts
# are made, since a tmpfs may come to lie over its path.
_SCRIPT = """
set -e
box=$1 code=$2 environment=$3 data=$4; shift 4
cd "$code"
mount -c --bind . "$box/code"
if [ -n "$environment" ]; then
    cd "$environment"
    mount -c --bind . "$box/environment"
fi
if [ -n "$data" ]; then
    cd "$data"
    mount -c --bind . "$box/environment/data"
fi
cd "$box"
mount -c --rbind . {inside}
mount -t tmpfs -o {workspaces} tmpfs {inside}/workspaces
{tmpfs}
cd /
exec "$@"
"""


def wrapped(
    box: Path,
    code: Path,
    provisions: Provisions | None,
    limits: SandboxLimits,
    many_users: bool,
    command: Sequence[str],
) -> list[str]:
    """The command in namespaces of its own, with ``box`` at INSIDE, code and provisions in it."""
    # What one user alone uses is private to it, which is how the runner knows that it may empty it.
    mode = 0o1777 if many_users else 0o700
    mounts = [f"mount -t tmpfs -o {tmpfs_options(path, limits, mode)} tmpfs {path}" for path in SCRATCH]
    script = _SCRIPT.format(
        inside=INSIDE, workspaces=tmpfs_options(WORKSPACE, limits, mode), tmpfs="\n".join(mounts)
    )
    # --kill-child: whoever kills the outer process kills the inner one, and with it the box.
    flags = ["--fork", "--kill-child", "--pid", "--mount-proc", "--net", "--ipc"]
    if os.geteuid() != 0:
        flags += ["--user", "--map-root-user"]
    environment = "" if provisions is None else str(provisions.folder)
    data = "" if provisions is None else str(provisions.operator_data or "")
    return [
        "unshare",
        *flags,
        "--",
        "sh",
        "-c",
        script,
        "sh",
        str(box),
        str(code),
        environment,
        data,
        *command,
    ]


async def namespaces_work(box: Path, code: Path, limits: SandboxLimits, interpreter: str) -> bool:
    """Whether a box can be started in namespaces here, found out by starting one that does nothing."""
    if shutil.which("unshare") is None or any(Path(interpreter).is_relative_to(path) for path in SCRATCH):
        return False
    process = await asyncio.create_subprocess_exec(
        *wrapped(box, code, None, limits, False, [interpreter, "-I", "-c", "pass"]),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_PROBE_S):
            return await process.wait() == 0
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
