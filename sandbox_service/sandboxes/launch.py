"""The command line and the first HELLO of a runner, which all kinds of box use."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from sandbox_service.environments.provisions import GROUP

if TYPE_CHECKING:
    from sandbox_service.environments.base import EnvironmentSpec


_BOOTSTRAP = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from sandbox_service.runner.main_process.main import main; main()"
)
_UIDS_OF_THE_RUNNER = 16
"""Ids at the start of a box's range that no agent gets; the first is the environment's."""


@dataclass(frozen=True, slots=True)
class RunnerLimits:
    """Bounds of one agent process, which the runner sets."""

    open_files: int
    processes: int | None
    """Processes of one agent uid; None where the uid is shared with the rest of the machine."""
    address_space_mib: int | None
    """None where the whole box has a memory bound."""
    file_mib: int
    pids_group: str | None = None
    """Folder in the box of the control group that bounds the processes of all agents; None where the limit of
    each user id does.
    """


@dataclass(frozen=True, slots=True)
class BoxFolders:
    """Folders of a box, as its own processes see them."""

    workspaces: str
    scratch: tuple[str, ...]
    """Folders besides the workspaces that agents can write."""
    packages: str | None = None
    """The environment's packages."""
    data: str | None = None
    """The environment's data."""
    agent_packages: dict[str, str] = field(default_factory=dict)
    """Packages of agents, by name."""
    private_folders: dict[str, str] = field(default_factory=dict)
    """Folders that each instance has to itself, with mount options; empty where the runner may not mount."""


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """The body of the first HELLO."""

    world_module: str
    agent_code: bool
    many_per_worker: bool
    workspace_root: str
    scratch: tuple[str, ...]
    packages: str | None
    data: str | None
    env_group: int
    drop_uids: bool
    uid_base: int
    uid_count: int
    env_uid: int
    limits: RunnerLimits
    system_calls: str
    own_network: bool
    agent_packages: dict[str, str]
    private_folders: dict[str, str]
    cleanup_cpu_s: float

    def body(self) -> dict[str, object]:
        """Return it as JSON."""
        return asdict(self)


def interpreter_arguments(code: str, socket: str, spec: EnvironmentSpec) -> tuple[str, ...]:
    """Return the arguments of a Python that becomes the runner of ``code``, listening at ``socket``.

    A world without packages of its own is imported before the runner forks. It consists of the service's
    own modules, which may run with the runner's rights.
    """
    # -I: neither the environment variables nor the working directory affect what is imported.
    ahead = (spec.world_module,) if spec.provisions is None else ()
    return ("-I", "-B", "-c", _BOOTSTRAP, code, socket, *ahead)


def configure(
    spec: EnvironmentSpec,
    places: BoxFolders,
    uids: range | None,
    limits: RunnerLimits,
    system_calls: bytes | None = None,
    *,
    own_network: bool = True,
    cleanup_cpu_s: float,
) -> RunnerSettings:
    """Return the configuration of a box's runner.

    Without ``uids`` its processes share one user id. ``system_calls`` is the filter that the runner installs
    for agents and environment where the box itself has none. ``own_network`` says whether the box has a
    loopback interface of its own. ``cleanup_cpu_s`` bounds the cleanup behind an instance.
    """
    return RunnerSettings(
        world_module=spec.world_module,
        agent_code=spec.agent_code,
        many_per_worker=spec.many_per_worker,
        workspace_root=places.workspaces,
        scratch=places.scratch,
        packages=places.packages,
        data=places.data,
        env_group=GROUP if spec.provisions is not None else 0,
        drop_uids=uids is not None,
        uid_base=uids.start + _UIDS_OF_THE_RUNNER if uids is not None else 0,
        uid_count=len(uids) - _UIDS_OF_THE_RUNNER if uids is not None else 0,
        env_uid=uids.start if uids is not None else 0,
        limits=limits,
        system_calls=(system_calls or b"").hex(),
        own_network=own_network,
        agent_packages=places.agent_packages,
        private_folders=places.private_folders,
        cleanup_cpu_s=cleanup_cpu_s,
    )
