"""The folders with packages that boxes offer to agents: the operator's, and those of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from sandbox_service.environments.base import EnvironmentSpec


TASK_PACKAGES = "harbor"
"""The name under which a box has the packages of its tasks."""
_OTHERS = 0o005


def check_packages(packages: Mapping[str, Path]) -> None:
    """Raise ServiceError(SANDBOX_FAILED) for a folder that is missing, or that agents cannot read."""
    for name, folder in packages.items():
        if not folder.is_absolute() or not folder.is_dir():
            raise _unusable(name, f"{folder} is no absolute path of a folder")
        if folder.stat().st_mode & _OTHERS != _OTHERS:
            raise _unusable(name, f"other users cannot read {folder}; run chmod -R o+rX on it")


def offered_packages(spec: EnvironmentSpec, packages: Mapping[str, Path]) -> dict[str, Path]:
    """Return the folders that the boxes of an environment have, by name; ``packages`` are the operator's."""
    offered = dict(packages) if spec.runs_agents else {}
    if spec.task_packages is not None:
        offered[TASK_PACKAGES] = spec.task_packages
    return offered


def _unusable(name: str, why: str) -> ServiceError:
    return ServiceError(ErrorCode.SANDBOX_FAILED, f"agents.packages.{name}: {why}")
