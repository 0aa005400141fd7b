"""The folders with agents' packages that an operator offers to boxes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

_OTHERS = 0o005


def check_packages(packages: Mapping[str, Path]) -> None:
    """Raise ServiceError(SANDBOX_FAILED) for a folder that is missing, or that agents cannot read."""
    for name, folder in packages.items():
        if not folder.is_absolute() or not folder.is_dir():
            raise _unusable(name, f"{folder} is no absolute path of a folder")
        if folder.stat().st_mode & _OTHERS != _OTHERS:
            raise _unusable(name, f"other users cannot read {folder}; run chmod -R o+rX on it")


def _unusable(name: str, why: str) -> ServiceError:
    return ServiceError(ErrorCode.SANDBOX_FAILED, f"agents.packages.{name}: {why}")
