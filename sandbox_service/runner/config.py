"""The runner's configuration, which the first HELLO carries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sandbox_service.runner.kernel.privileges import ProcessLimits

AGENT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""``PATH`` of agent processes."""


@dataclass(frozen=True, slots=True)
class RunnerConfig:
    """The environment of the box, and how its processes are isolated."""

    world_module: str
    """Imported in the zygote only."""
    workspace_root: str
    """Parent of the instances' directories."""
    agent_code: bool = False
    """Instances get an Agent."""
    many_per_worker: bool = False
    """One worker holds all instances."""
    shared_step_cpu_s: float = 5.0
    """CPU time of a step where one worker holds all instances; a hundred times what a step takes."""
    shared_evaluate_cpu_s: float = 20.0
    """CPU time of a grading there. A grader that needs a fifth of it without the agent's work is at fault."""
    packages: str | None = None
    """A folder of the environment's packages, for zygote and workers."""
    data: str | None = None
    """A folder of the environment's data, likewise."""
    env_group: int = 0
    """The group that may enter both; 0 for none."""
    scratch: tuple[str, ...] = ()
    """Directories besides the workspaces that agents can write; emptied between instances."""
    drop_uids: bool = False
    """Whether instances get user ids of their own; needs root."""
    uid_base: int = 0
    """First of ``uid_count`` ids that nothing else on the machine has."""
    uid_count: int = 65_536
    """Number of ids for agents and candidates."""
    env_uid: int = 0
    """The id of zygote and workers."""
    limits: ProcessLimits = field(default_factory=ProcessLimits)
    """Bounds of agent processes."""
    system_calls: str = ""
    """The filter of system calls that agents and environment get, in hexadecimal; empty where the box has one
    around it, or can have none."""
    orphan_timeout_s: float = 300.0
    """The box ends itself when no host has been connected for so long."""
    cleanup_cpu_s: float = 20.0
    """A cleanup that computes for longer is given up; the box is not clean then, and the host destroys it."""

    own_network: bool = False
    """Whether the box's loopback is its own, so that agents may be given ports on it."""
    agent_packages: dict[str, str] = field(default_factory=dict)
    """Folders of agents' packages, by name."""
    private_folders: dict[str, str] = field(default_factory=dict)
    """Folders that each instance gets to itself, with the mount options of their tmpfs; empty where the
    runner may not mount, or the box has one instance."""

    @classmethod
    def parse(cls, values: dict[str, Any]) -> RunnerConfig:
        """Read the JSON object of a HELLO. Raises ValueError, TypeError or KeyError when it is malformed."""
        known = {key: value for key, value in values.items() if key in cls.__dataclass_fields__}
        known["scratch"] = tuple(str(path).rstrip("/") for path in values.get("scratch", ()))
        known["workspace_root"] = str(values["workspace_root"]).rstrip("/")
        known["limits"] = ProcessLimits(**values.get("limits", {}))
        config = cls(**known)
        bytes.fromhex(config.system_calls)
        if not config.workspace_root.startswith("/"):
            raise ValueError("workspace_root is not an absolute path")
        if config.drop_uids and (config.uid_base <= 0 or config.env_uid <= 0):
            raise ValueError("drop_uids needs uid_base and env_uid")
        if config.drop_uids and 0 <= config.env_uid - config.uid_base < config.uid_count:
            raise ValueError("env_uid lies among the instances' ids")
        return config

    @property
    def filter(self) -> bytes:
        """The filter of system calls in the kernel's binary form."""
        return bytes.fromhex(self.system_calls)

    @property
    def keeper_uid(self) -> int:
        """Real user id of the runner's helpers whose effective user id is an agent's."""
        return self.uid_base

    @property
    def sweeper_uid(self) -> int:
        """Real user id of the process that signals all processes of an agent.

        With the helpers' id the signal would reach the helpers of every instance.
        """
        return self.uid_base + 1

    @property
    def most_instances(self) -> int:
        """Return how many instances get user ids in the box's life; the upper half is for candidates."""
        return self.uid_count // 2 - 2

    def agent_uid(self, serial: int) -> int | None:
        """User id of an instance's agent, which no other instance ever has; None when ids are not dropped."""
        return self.uid_base + 1 + serial if self.drop_uids else None

    def candidate_uid(self, number: int) -> int | None:
        """User id of a candidate; an id is used again only after all ids for candidates."""
        first = self.uid_count // 2
        return self.uid_base + first + number % (self.uid_count - first) if self.drop_uids else None

    def workspace(self, serial: int) -> str:
        """Return the workspace of an instance."""
        return f"{self.workspace_root}/{serial}"

    def candidate_directory(self, number: int) -> str:
        """Return the working directory of a candidate."""
        return f"{self.workspace_root}/candidate-{number}"

    def temporary_directory(self, serial: int) -> str | None:
        """Return the directory for temporary files of an instance; None where instances have own user ids."""
        return None if self.drop_uids else f"{self.workspace_root}/{serial}.tmp"
