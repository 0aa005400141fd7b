"""The interface of a sandbox: a box with a runner in it, started once and destroyed once.

``docker``, ``gvisor`` and ``process`` implement it, and one contract suite runs on all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sandbox_service.environments.base import BoxResources, EnvironmentSpec
    from sandbox_service.wire.frames import Frame


DESTROY_S = 45.0
"""Longest time in which a box is destroyed; it takes more than a few seconds while an engine restarts."""
_BESIDE_STORAGE_MIB = 256


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Bounds of one box; agent code cannot pass them."""

    memory_mib: int = 512
    """Memory and swap of the whole box."""
    cpus: float = 1.0
    """CPU cores."""
    pids: int = 128
    """Processes and threads."""
    open_files: int = 1024
    """File descriptors a process."""
    workspace_mib: int = 64
    """Size of each writable tmpfs."""
    workspace_inodes: int = 8192
    """Files and directories in each writable tmpfs."""
    storage_mib: int = 0
    """Size of the tmpfs of the workspaces where it is larger, with files in proportion."""
    cleanup_cpu_s: float = 20.0
    """CPU seconds after which the cleanup behind an instance is given up, and the box destroyed."""

    def raised_to(self, needed: BoxResources) -> SandboxLimits:
        """Return the limits, raised to what a box needs.

        Of the memory, storage may be a quarter of what is over 256 MiB: full folders, with copies of them and
        all else that lies in memory, must not end the box.
        """
        memory_mib = max(self.memory_mib, needed.memory_mib)
        return replace(
            self,
            memory_mib=memory_mib,
            cpus=max(self.cpus, needed.cpus),
            pids=max(self.pids, needed.pids),
            storage_mib=max(
                self.storage_mib, min(needed.storage_mib, (memory_mib - _BESIDE_STORAGE_MIB) // 4)
            ),
        )

    @property
    def largest_folder_mib(self) -> int:
        """Size of the largest writable tmpfs, and so of an agent's largest file."""
        return max(self.workspace_mib, self.storage_mib)


class Sandbox(Protocol):
    """A started box. Tenants must not share one; the pool ensures that."""

    @property
    def sandbox_id(self) -> str:
        """Unique name; for docker also the container's name."""
        ...

    async def request(self, frame: Frame, timeout_s: float) -> Frame:
        """Send a frame to the runner and return its answer (Op.REPLY or Op.ERROR).

        The request id is set by the connection. Raises ServiceError(OUTCOME_UNKNOWN) when the box dies or
        the connection breaks in between, ServiceError(STEP_TIMEOUT) when no answer came in time.
        """
        ...

    def send(self, frame: Frame) -> None:
        """Send a frame that has no answer, such as bytes of a connection; dropped when the box is gone."""
        ...

    async def reset(self) -> bool:
        """Clean the box between instances; return True when it is verified clean."""
        ...

    async def destroy(self) -> None:
        """Kill the box and remove everything of it. Idempotent; a failure is logged and does not raise."""
        ...


class SandboxFactory(Protocol):
    """Makes boxes of one kind on this node."""

    @property
    def kind(self) -> str:
        """``docker``, ``gvisor`` or ``process``."""
        ...

    @property
    def is_boundary(self) -> bool:
        """Whether a box is a security boundary."""
        ...

    @property
    def idle_memory_mib(self) -> int:
        """MiB that a box takes with an idle instance, about, by which the size of pools is planned."""
        ...

    def protections(self) -> dict[str, bool]:
        """Return the protections against boxes that are not a boundary, and whether each is active here."""
        ...

    def capacity(self, spec: EnvironmentSpec) -> int:
        """Return the most instances that a box of that environment may hold."""
        ...

    async def start(
        self,
        spec: EnvironmentSpec,
        on_event: Callable[[Frame], None],
        on_death: Callable[[str], None],
    ) -> Sandbox:
        """Start a box and its zygote; ``on_event`` gets the runner's EVENT frames, ``on_death`` the id.

        Raises ServiceError(SANDBOX_FAILED | IMAGE_MISSING | STORAGE_FULL); then nothing of the box is left.
        """
        ...

    async def sweep(self) -> int:
        """Destroy the boxes that an earlier supervisor of this node left, and return their number."""
        ...

    async def close(self) -> None:
        """Wait for destructions under way, DESTROY_S after their begin at most, and release own resources."""
        ...
