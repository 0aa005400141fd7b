"""The seam between the checks and the machine: all that a check may ask, and the facts that it gets.

Facts have no judgement; the checks judge them. ``LocalMachine`` asks this machine, tests bring their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_service.config import ServiceConfig
    from sandbox_service.pool.policy import NodeSize
    from sandbox_service.sandboxes.docker import EngineInfo
    from sandbox_service.trajectories.condition import StoreCondition


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """The kernel, and the switches that decide what its users may do."""

    release: str
    machine: str
    landlock_abi: int
    """Version of Landlock's interface; 0 where it is absent or disabled."""
    cgroup_version: int
    """2 where the unified hierarchy is mounted, 1 for the former ones, 0 without control groups."""
    controllers: frozenset[str]
    """Controllers of the control groups."""
    user_namespaces: int | None
    """``user.max_user_namespaces``; None where the kernel has no such setting."""
    unprivileged_namespaces: bool
    """Whether users without rights may make user namespaces, by the distributions' own switches."""


@dataclass(frozen=True, slots=True)
class UserFacts:
    """The user who examines, who is taken for the user of the service."""

    uid: int
    name: str
    mapped: bool
    """Whether the user namespace of this process contains the user ids of boxes."""
    ids_free: bool
    """Whether a part of the boxes' user ids is free."""
    environments_group: str
    """Name of the group that the environments' files belong to, if this machine gave that id to a group."""
    cache: Path
    """The folder for environments and base images."""


@dataclass(frozen=True, slots=True)
class LimitFacts:
    """Limits of processes that the service inherits; None means that there is none."""

    open_files: int | None
    """The hard limit of one process."""
    processes: int | None
    """The limit of processes and threads of this user."""
    pid_max: int
    threads_max: int
    cgroup_pids: int | None
    """The smallest bound of this process's own control group and those above it."""


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """The file system of a path that exists or is to be made."""

    free_mib: int
    free_inodes: int | None
    """None where the file system does not count them."""
    mount: Path
    writable: bool
    """Whether the path is a folder, or does not exist, and this user may write in it or make it."""


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """The clock of the machine."""

    source: str
    """The hardware that the kernel reads it from."""
    synchronized: bool | None
    """Whether the kernel says that a time service corrects it; None where it cannot be asked."""
    error_s: float
    """The kernel's estimate of the largest error."""
    jumped_s: float
    """Seconds by which the wall clock ran from the monotonic clock during the examination."""


@dataclass(frozen=True, slots=True)
class EnvironmentFacts:
    """Environments of this machine."""

    served: frozenset[str]
    absent: frozenset[str]
    """Not set up, and set up together with all others."""
    optional: Mapping[str, str]
    """Not set up, and why not together with the others."""
    broken: Mapping[str, str]
    """Environments that are set up or installed and cannot be served, and why. Packages that use the name of
    one of the service's own are among them, and that one is served."""
    unreadable: frozenset[str] = frozenset()
    """The broken ones that are set up in a folder that this user cannot read."""


class ExaminedMachine(Protocol):
    """Answers questions about a machine.

    Methods raise ServiceError where the answer is that something cannot be had; the text says why.
    """

    def read_engine(self, config: ServiceConfig) -> EngineInfo:
        """Return the facts of the container engine."""
        ...

    def find_missing_images(self, config: ServiceConfig) -> list[str]:
        """Return the images of served environments that the engine does not have."""
        ...

    def try_gvisor(self, config: ServiceConfig) -> str:
        """Return the path of gVisor's program, after a trial box."""
        ...

    def try_protections(self, config: ServiceConfig) -> Mapping[str, bool]:
        """Return what confines process boxes here, each after a trial."""
        ...

    def read_kernel(self) -> KernelFacts:
        """Return the facts of the kernel."""
        ...

    def read_user(self) -> UserFacts:
        """Return the facts of the user."""
        ...

    def read_limits(self) -> LimitFacts:
        """Return the limits of processes."""
        ...

    def read_size(self, kind: str) -> NodeSize:
        """Return the cores and memory that a supervisor here counts for boxes of a kind."""
        ...

    def read_disk(self, path: Path) -> DiskFacts:
        """Return the facts of a path's file system."""
        ...

    def can_list(self, path: Path) -> bool:
        """Return whether a path is a folder that this user may list and enter."""
        ...

    def read_clock(self) -> ClockFacts:
        """Return the facts of the clock."""
        ...

    def find_environments(self, config: ServiceConfig) -> EnvironmentFacts:
        """Return the environments that are set up and those that are not."""
        ...

    def read_store(self, url: str) -> StoreCondition:
        """Return the condition of the trajectory store."""
        ...

    def try_settings(self, config: ServiceConfig) -> Mapping[str, str | None]:
        """Return why `serve` would refuse settings before anything starts, by name; None if it would not."""
        ...

    def try_listening(self, config: ServiceConfig) -> str | None:
        """Return why the server's address cannot be listened on; None if it can."""
        ...

    def try_connecting(self, address: str) -> str | None:
        """Return why a cluster's address cannot be connected to; None if it can.

        It is ``host:port``, or ``auto`` for a cluster that Ray finds on this machine.
        """
        ...

    def find_service(self, url: str) -> bool:
        """Return whether a sandbox service answers at a URL."""
        ...

    def read_ephemeral_ports(self) -> range:
        """Return the ports that the kernel gives to outgoing connections."""
        ...

    def read_version(self, name: str) -> str | None:
        """Return the version of an installed Python package; None if it is not installed."""
        ...

    def has_library(self, name: str) -> bool:
        """Return whether the dynamic loader finds a shared library."""
        ...

    def read_pins(self, extra: str) -> Mapping[str, str]:
        """Return the versions of the packages that an extra of this product pins, by name."""
        ...

    def find_haproxy(self) -> str | None:
        """Return the path of HAProxy's binary."""
        ...

    def find_gpus(self) -> list[str]:
        """Return a description of each GPU; raises ServiceError when the driver's program fails."""
        ...

    def read_shared_memory_mib(self) -> int:
        """Return the size of the shared memory's file system."""
        ...
