"""What a sandbox is: a box with a runner in it, started once, destroyed once.

Two implementations keep this protocol, ``docker`` and ``process``, and one contract suite runs on both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_service.environments.base import EnvironmentSpec
    from sandbox_service.wire.frames import Frame

__all__ = ["Sandbox", "SandboxFactory", "SandboxLimits"]


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


class Sandbox(Protocol):
    """A started box. Not safe to share between tenants; the pool sees to that."""

    @property
    def sandbox_id(self) -> str:
        """Unique name; for docker also the container's name."""
        ...

    async def request(self, frame: Frame, timeout_s: float) -> Frame:
        """Send a frame to the runner and await its answer (Op.REPLY or Op.ERROR).

        The request id is set by the connection. Raises ServiceError(OUTCOME_UNKNOWN) when the box dies or
        the connection breaks in between, ServiceError(STEP_TIMEOUT) when nothing came in time.
        """
        ...

    async def reset(self) -> bool:
        """Clean the box between instances; True when it is proven clean."""
        ...

    async def destroy(self) -> None:
        """Kill the box and remove everything of it. Idempotent; never raises for a box that is gone."""
        ...


class SandboxFactory(Protocol):
    """Makes boxes of one kind on this node."""

    @property
    def kind(self) -> str:
        """``docker`` or ``process``."""
        ...

    @property
    def is_boundary(self) -> bool:
        """Whether a box is a security boundary."""
        ...

    def protections(self) -> dict[str, bool]:
        """Return what protects the machine from boxes that are no boundary, and whether it is on here."""
        ...

    def capacity(self, spec: EnvironmentSpec) -> int:
        """Most instances in one box of that environment."""
        ...

    async def start(
        self,
        spec: EnvironmentSpec,
        on_event: Callable[[Frame], None],
        on_death: Callable[[str], None],
    ) -> Sandbox:
        """Start a box and its zygote; ``on_event`` gets the runner's EVENT frames, ``on_death`` the id.

        Raises ServiceError(SANDBOX_FAILED | IMAGE_MISSING | STORAGE_FULL); then nothing of the box stays.
        """
        ...

    async def sweep(self) -> int:
        """Destroy what an earlier supervisor of this node left behind, found by label; how many."""
        ...

    async def close(self) -> None:
        """Give back the factory's own resources."""
        ...
