"""Check settings that `serve` refuses on this machine before anything starts, and those that do nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sandbox_service.gateway.auth import LOCAL_TENANT
from service_cli.doctor.findings import MachineFinding, ok, problem, warning

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig
    from service_cli.doctor.machine import ExaminedMachine


def check_settings(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check single settings as the start of the service does."""
    reasons = machine.try_settings(config)
    fix = "correct what it names; the service does not start otherwise"
    findings = [problem("settings", name, reason, fix) for name, reason in reasons.items() if reason]
    findings = findings or [ok("settings", "usable", ", ".join(reasons))]
    if not reasons.get("telemetry"):
        findings += _traces(config.telemetry.otlp_endpoint)
    return findings + _runs(config, machine)


def _traces(endpoint: str | None) -> list[MachineFinding]:
    if endpoint is None or urlsplit(endpoint).path.strip("/"):
        return []
    found = "telemetry.otlp_endpoint has no path, and spans are sent to the URL as it is"
    fix = "add the path of the receiver's traces, which is /v1/traces by default"
    return [warning("settings", "traces", found, fix)]


def _runs(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check that the console has runs to show, and keys of the tenants who may see them."""
    runs, tenants = config.server.console_runs, config.server.tenants
    findings = []
    if keyless := sorted(runs.keys() - (tenants or {LOCAL_TENANT})):
        found = f"server.console_runs has folders for tenants without a key: {', '.join(keyless)}"
        fix = (
            "name tenants of server.api_keys (sandbox-service keys new TENANT)"
            if tenants
            else f"name the tenant {LOCAL_TENANT}, who has all requests to a service without keys"
        )
        findings.append(warning("settings", "tenants of runs", found, fix))
    if closed := sorted({folder for folder in runs.values() if not machine.can_list(Path(folder))}):
        found = f"server.console_runs names what is no folder that this user can list: {', '.join(closed)}"
        fix = "make the folder, let the service's user read it, or correct the path"
        findings.append(warning("settings", "folders of runs", found, fix))
    return findings
