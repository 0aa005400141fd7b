"""The bundle of a gVisor box: the OCI runtime configuration as a pure function of its request.

It grants what the hardening profile of containers grants: no network, three capabilities for the runner, a
read-only root, four bounded tmpfs, no environment variables. The filter of system calls is installed by the
runner, for the processes of agents and environment.

The fields are those of the OCI runtime specification 1.0.2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_service.environments.provisions import GROUP

from .hardening import (
    BOX_AGENTS,
    BOX_DATA,
    BOX_PACKAGES,
    BOX_SOCKET_DIR,
    GVISOR_COVER,
    RUNNER_CAPABILITIES,
    SCRATCH,
    WORKSPACE,
    gvisor_memory_mib,
    tmpfs_options,
)

if TYPE_CHECKING:
    from pathlib import Path

    from .base import SandboxLimits
    from .hardening import Json


CODE = "/opt/code"
"""The runner and the environment's box modules, as the service lays them out."""
ENVIRONMENT = "/opt/environment"
"""The folder above packages and data; only the group of the environments' processes can enter it."""
FUSE_DEVICE = "/dev/fuse"
_AGENTS = "agents"
"""Folder in the bundle with an empty one for each of the agents' packages."""
_PIDS = "/sys/fs/cgroup/pids"
AGENTS_GROUP = f"{_PIDS}/agents"
"""The control group of agents' processes, in gVisor's kernel, which ignores RLIMIT_NPROC."""
_CPU_PERIOD_US = 100_000


@dataclass(frozen=True, slots=True)
class BundleRequest:
    """The box to run."""

    root: Path
    """The unpacked root folder, which the box sees read-only."""
    command: tuple[str, ...]
    socket_dir: Path
    """The host's private folder that is mounted at BOX_SOCKET_DIR; the only one that the box can write."""
    code: Path
    limits: SandboxLimits
    packages: Path | None = None
    """The environment's packages."""
    data: Path | None = None
    """The environment's data, or the operator's."""
    agent_packages: Mapping[str, Path] = field(default_factory=dict)
    """Folders by the names under which they are mounted below BOX_AGENTS."""
    cgroup: str | None = None
    """The control group to make for the box; None where none can be made."""


def write_bundle(folder: Path, request: BundleRequest) -> None:
    """Make a bundle's folder, which nobody else can read."""
    folder.mkdir(mode=0o700)
    for name in request.agent_packages:
        (folder / _AGENTS / name).mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(bundle_config(request)), encoding="utf-8")


def bundle_config(request: BundleRequest) -> dict[str, Json]:
    """Return the content of the bundle's ``config.json``."""
    linux: dict[str, Json] = {
        "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
    }
    if request.cgroup is not None:
        linux |= {"cgroupsPath": request.cgroup, "resources": _resources(request.limits)}
    capabilities: list[Json] = [f"CAP_{name}" for name in RUNNER_CAPABILITIES]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": list(request.command),
            "env": [],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), capabilities),
            "noNewPrivileges": True,
            "rlimits": _rlimits(request.limits),
        },
        "root": {"path": str(request.root), "readonly": True},
        "hostname": "sandbox",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": _PIDS, "type": "cgroup", "source": "cgroup", "options": ["pids"]},
            *_covers(),
            *_mounts(request),
        ],
        "linux": linux,
    }


def _covers() -> list[Json]:
    """Hide the devices that gVisor makes and other containers do not have."""
    options: list[Json] = [*GVISOR_COVER]
    tun: Json = {"destination": "/dev/net", "type": "tmpfs", "source": "tmpfs", "options": options}
    return [tun, _bind("/dev/null", FUSE_DEVICE, "ro")]


def _mounts(request: BundleRequest) -> list[Json]:
    mounts = [
        _bind(str(request.socket_dir), BOX_SOCKET_DIR, "rw"),
        _bind(str(request.code), CODE, "ro"),
    ]
    if request.packages is not None:
        # A tmpfs has the group also where the box's user ids are not the host's, as without root.
        options: list[Json] = ["ro", "nosuid", "nodev", "size=4k", "mode=750", f"gid={GROUP}"]
        mounts.append({"destination": ENVIRONMENT, "type": "tmpfs", "source": "tmpfs", "options": options})
        mounts.append(_bind(str(request.packages), BOX_PACKAGES, "ro"))
    if request.data is not None:
        mounts.append(_bind(str(request.data), BOX_DATA, "ro"))
    if request.agent_packages:
        # The root folder may belong to another user and to no configuration: it has no places for the names.
        mounts.append(_bind(_AGENTS, BOX_AGENTS, "ro"))
    for name, folder in sorted(request.agent_packages.items()):
        mounts.append(_bind(str(folder), f"{BOX_AGENTS}/{name}", "ro"))
    for path in (WORKSPACE, *SCRATCH):
        bounded: list[Json] = [*tmpfs_options(path, request.limits).split(",")]
        mounts.append({"destination": path, "type": "tmpfs", "source": "tmpfs", "options": bounded})
    return mounts


def _bind(source: str, target: str, mode: str) -> Json:
    options: list[Json] = ["rbind", mode, "nosuid", "nodev"]
    return {"destination": target, "type": "bind", "source": source, "options": options}


def _rlimits(limits: SandboxLimits) -> list[Json]:
    values = {
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_FSIZE": limits.memory_mib * 1024 * 1024,
        "RLIMIT_CORE": 0,
        "RLIMIT_MSGQUEUE": 0,
    }
    return [{"type": name, "hard": value, "soft": value} for name, value in values.items()]


def _resources(limits: SandboxLimits) -> Json:
    memory = gvisor_memory_mib(limits) * 1024 * 1024
    return {
        "memory": {"limit": memory, "swap": memory},
        "cpu": {"quota": round(limits.cpus * _CPU_PERIOD_US), "period": _CPU_PERIOD_US},
    }
