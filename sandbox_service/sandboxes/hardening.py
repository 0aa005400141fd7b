"""The hardening profile of a container, as a pure function of its limits.

Everything is denied that neither the runner nor honest agent code needs: no network, no capability but the
runner's three, no writable path but four bounded tmpfs, no file of the host but one private folder, no
environment variables, no log. The function returns the engine API's own JSON, so that the profile can be
read and tested without an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from .seccomp import seccomp_profile

if TYPE_CHECKING:
    from .base import SandboxLimits


Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

BOX_CODE = "/opt/sandbox"
"""The folder of the service's own files in an image."""
BOX_PACKAGES = "/opt/environment/packages"
BOX_DATA = "/opt/environment/data"
"""The packages and data of the environment; agents cannot enter the folder above."""
BOX_AGENTS = "/opt/agents"
"""The packages of agents, each in a folder of its name."""
BOX_PYTHON = "/opt/sandbox/python3"
"""The image's interpreter, wherever its base has it; a link that the Dockerfile makes."""
BOX_SOCKET_DIR = "/run/sandbox"
"""The private folder of the runner's socket; the only folder of the host in the box besides operator data."""
WORKSPACE = "/workspace"
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
"""Writable folders besides the workspace; emptied between instances."""

RUNNER_CAPABILITIES = ["KILL", "SETGID", "SETUID"]
"""SETUID and SETGID give processes user ids of their own, KILL ends them."""
SHM_MIB = 16
GVISOR_COVER = ["ro", "nosuid", "nodev", "noexec", "size=4k", "mode=700"]
"""Mount options of an empty folder over a folder of devices that gVisor makes for all boxes."""
GVISOR_IDLE_MIB = 136
"""MiB that an idle box in gVisor takes, measured (docs/security.md)."""
_GVISOR_MIB = 128
"""Memory of gVisor's own kernel and of the runner, beyond the bound for agents."""
_GVISOR_PROCESS_MIB = 12
"""Memory of one process of the box at worst: gVisor copies more than Linux when a process forks."""
_GVISOR_THREADS = 16
"""Threads of the host for each process of the box, with room."""

MASKED_PATHS = [
    "/dev/mqueue",
    "/proc/acpi",
    "/proc/asound",
    "/proc/bus",
    "/proc/cmdline",
    "/proc/config.gz",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/irq",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/modules",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/kernel",
    "/sys/module",
]
"""Hidden from all processes of the box; the engine's own list is part of it. Message queues are masked
because they outlive their processes."""
READONLY_PATHS = ["/proc/driver", "/proc/sys", "/proc/tty"]


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The container to create."""

    image: str
    command: tuple[str, ...]
    """Arguments of the box's interpreter."""
    socket_dir: str
    """The host's private folder that is mounted at BOX_SOCKET_DIR."""
    labels: Mapping[str, str]
    limits: SandboxLimits
    data_dir: str | None = None
    """The operator's data, mounted read-only at BOX_DATA."""
    agent_packages: Mapping[str, str] = field(default_factory=dict)
    """Folders of the host by the names under which they are mounted read-only below BOX_AGENTS."""
    runtime: str | None = None
    """A runtime of the engine; None for its default."""
    gvisor: bool = False
    """Whether that runtime is gVisor."""
    socket_group: int | None = None
    """A group of the host that may use ``socket_dir``, when its owner is not the box's root."""


def container_config(request: ContainerRequest) -> dict[str, Json]:
    """Return the body of the engine's request to create a container."""
    return {
        "Image": request.image,
        # env -i: variables of the image and the engine do not reach the runner.
        "Entrypoint": ["/usr/bin/env", "-i", BOX_PYTHON],
        "Cmd": list(request.command),
        "Env": [],
        "User": "0:0",
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": dict(request.labels),
        "AttachStdin": False,
        "AttachStdout": False,
        "AttachStderr": False,
        "OpenStdin": False,
        "Tty": False,
        "StopSignal": "SIGKILL",
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(request),
    }


def _host_config(request: ContainerRequest) -> dict[str, Json]:
    limits = request.limits
    memory = (gvisor_memory_mib(limits) if request.gvisor else limits.memory_mib) * 1024 * 1024
    config: dict[str, Json] = {
        "NetworkMode": "none",
        # A private IPC namespace, so that System V objects and queues are the box's own; the host's would be
        # shared by all boxes.
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "PidMode": "",
        "UTSMode": "",
        "Privileged": False,
        "PublishAllPorts": False,
        "ReadonlyRootfs": True,
        # All dropped, then three added: an engine's default set changes with its version.
        "CapDrop": ["ALL"],
        "CapAdd": list[Json](RUNNER_CAPABILITIES),
        "SecurityOpt": ["no-new-privileges", f"seccomp={seccomp_profile()}"],
        "MaskedPaths": list[Json](MASKED_PATHS),
        "ReadonlyPaths": list[Json](READONLY_PATHS),
        "Mounts": _mounts(request),
        "Tmpfs": {
            **({"/dev/net": ",".join(GVISOR_COVER)} if request.gvisor else {}),
            **{path: tmpfs_options(path, limits) for path in (WORKSPACE, *SCRATCH)},
        },
        "Memory": memory,
        # Equal to the memory, so that the box has no swap and the bound holds.
        "MemorySwap": memory,
        "NanoCpus": round(limits.cpus * 1_000_000_000),
        # The host's kernel counts threads of gVisor, which are more than the processes in the box.
        "PidsLimit": limits.pids * _GVISOR_THREADS if request.gvisor else limits.pids,
        "OomKillDisable": False,
        "Ulimits": [
            _ulimit("nofile", limits.open_files),
            # Of the runner, which handles packed folders; agents' own bound is set by the launcher.
            _ulimit("fsize", limits.memory_mib * 1024 * 1024),
            _ulimit("core", 0),
            _ulimit("msgqueue", 0),
            _ulimit("memlock", 64 * 1024),
        ],
        "LogConfig": {"Type": "none"},
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        # The runner is PID 1 and reaps orphans; an init of the engine would be one more process.
        "Init": False,
    }
    if request.runtime is not None:
        config["Runtime"] = request.runtime
    if request.socket_group is not None:
        config["GroupAdd"] = [str(request.socket_group)]
    return config


def _mounts(request: ContainerRequest) -> list[Json]:
    private: Json = {"Propagation": "rprivate"}
    mounts: list[Json] = [
        {"Type": "bind", "Source": request.socket_dir, "Target": BOX_SOCKET_DIR, "BindOptions": private}
    ]
    if request.gvisor:
        fuse = "/dev/fuse"
        mounts.append(
            {"Type": "bind", "Source": "/dev/null", "Target": fuse, "ReadOnly": True, "BindOptions": private}
        )
    if request.data_dir is not None:
        source = request.data_dir
        mounts.append(
            {"Type": "bind", "Source": source, "Target": BOX_DATA, "ReadOnly": True, "BindOptions": private}
        )
    for name, source in sorted(request.agent_packages.items()):
        target = f"{BOX_AGENTS}/{name}"
        mounts.append(
            {"Type": "bind", "Source": source, "Target": target, "ReadOnly": True, "BindOptions": private}
        )
    return mounts


def gvisor_memory_mib(limits: SandboxLimits) -> int:
    """Return the memory bound of a whole gVisor sandbox, beyond which all of it ends."""
    return limits.memory_mib + _GVISOR_MIB + limits.pids * _GVISOR_PROCESS_MIB


def tmpfs_options(path: str, limits: SandboxLimits, mode: int = 0o1777) -> str:
    """Return the mount options of a writable path, bounded in bytes and in inodes."""
    small = path == "/dev/shm"
    size, inodes = limits.workspace_mib, limits.workspace_inodes
    if small:
        size = min(SHM_MIB, size)
    elif path not in SCRATCH:
        size = limits.largest_folder_mib
        inodes = inodes * size // limits.workspace_mib
    # Scripts may run where agents work: an interpreter would run them all the same.
    execution = "noexec" if small else "exec"
    return f"rw,nosuid,nodev,{execution},size={size}m,nr_inodes={inodes},mode={mode:o}"


def _ulimit(name: str, value: int) -> Json:
    return {"Name": name, "Soft": value, "Hard": value}
