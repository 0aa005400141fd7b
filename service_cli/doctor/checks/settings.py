"""Check settings that `serve` refuses on this machine before anything starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service_cli.doctor.findings import MachineFinding, ok, problem

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig
    from service_cli.doctor.machine import ExaminedMachine


def check_settings(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check single settings as the start of the service does."""
    reasons = machine.try_settings(config)
    fix = "correct what it names; the service does not start otherwise"
    findings = [problem("settings", name, reason, fix) for name, reason in reasons.items() if reason]
    return findings or [ok("settings", "usable", ", ".join(reasons))]
