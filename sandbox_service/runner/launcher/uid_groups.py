"""Instances that share a user id, and the processes that run for an instance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.runner.kernel.mount_namespace import MountNamespace


HELPERS = ("files", "copier")
"""Kinds of processes that run our code with an agent's rights to files."""


@dataclass(frozen=True, slots=True)
class AgentProcess:
    """A child of the launcher that an instance asked for."""

    pid: int
    serial: int
    kind: str
    """session, shell, program, files, candidate or copier."""


@dataclass(slots=True)
class UidGroup:
    """Instances that share a user id."""

    uid: int | None
    """None where ids are not dropped."""
    members: set[int] = field(default_factory=set)
    touched: bool = False
    """Whether any process ever ran under the id."""
    namespace: MountNamespace | None = None
    """The folders of its own, made for its first process."""
