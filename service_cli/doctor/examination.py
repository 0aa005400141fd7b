"""The examination of a machine: all checks, in the order in which people fix things."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from .checks.boxes import check_engine, check_gvisor, check_images, check_kind, check_protections
from .checks.contents import check_accelerators, check_environments, check_packages
from .checks.network import check_cluster, check_front, check_ports
from .checks.settings import check_settings
from .checks.storage import check_clock, check_disk, check_store
from .checks.system import check_kernel, check_limits, check_user
from .findings import MachineFinding, warning

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig

    from .machine import ExaminedMachine

    Check: TypeAlias = Callable[[ServiceConfig, ExaminedMachine], list[MachineFinding]]

CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "packages": check_packages,
        "kernel": check_kernel,
        "user": check_user,
        "limits": check_limits,
        "engine": check_engine,
        "gvisor": check_gvisor,
        "processes": check_protections,
        "boxes": check_kind,
        "environments": check_environments,
        "images": check_images,
        "disk": check_disk,
        "store": check_store,
        "settings": check_settings,
        "ports": check_ports,
        "front": check_front,
        "ray": check_cluster,
        "gpu": check_accelerators,
        # Last: it compares the clocks over the time of the whole examination.
        "clock": check_clock,
    }
)
"""The checks by subject."""


def examine(
    config: ServiceConfig, machine: ExaminedMachine, checks: Mapping[str, Check] = CHECKS
) -> list[MachineFinding]:
    """Return the findings of all checks; a check that fails itself is a warning, and the others go on."""
    findings: list[MachineFinding] = []
    for subject, check in checks.items():
        try:
            findings += check(config, machine)
        except Exception as error:  # noqa: BLE001 - whatever is broken here, the other checks are wanted
            reason = f"could not be examined: {type(error).__name__}: {error}"
            fix = "correct what the message names; otherwise report it as a defect of doctor"
            findings.append(warning(subject, "examined", reason, fix))
    return findings
