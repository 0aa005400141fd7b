"""Check disks, the trajectory store, and the clock that dates its records."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_service.environments.provisions import default_root
from sandbox_service.errors import ServiceError
from sandbox_service.trajectories.condition import StoreState, store_file
from service_cli.doctor.findings import MachineFinding, absent, ok, problem, warning

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig
    from sandbox_service.trajectories.condition import StoreCondition
    from service_cli.doctor.machine import ClockFacts, DiskFacts, ExaminedMachine


_LEAST_MIB = 512
_ENOUGH_MIB = 5_120
_ENOUGH_INODES = 10_000
_USABLE = frozenset({StoreState.CURRENT, StoreState.EMPTY, StoreState.OLDER})
_SLOW_CLOCKS = frozenset({"acpi_pm", "hpet", "jiffies", "pit"})
_JUMP_S = 0.25
_APART_S = 2.0


def check_disk(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check the space and rights of the folders that the service fills."""
    environments = config.environments.packages_dir or default_root()
    findings = [
        _folder("state directory", config.sandbox.state_dir or Path(tempfile.gettempdir()), machine),
        _folder("environments", environments, machine, written=False),
        _folder("base images", machine.read_user().cache / "images", machine, written=False),
    ]
    file = store_file(config.store.url)
    if file is not None:
        findings.append(_folder("trajectories", file.parent, machine))
    try:
        engine = machine.read_engine(config)
    except ServiceError:
        return findings
    if os.path.isdir(engine.data_root):  # noqa: PTH112 - unlike Path.is_dir, it raises nothing for closed folders
        findings.append(_folder("engine", Path(engine.data_root), machine, written=False))
    return findings


def _folder(check: str, path: Path, machine: ExaminedMachine, *, written: bool = True) -> MachineFinding:
    """Check one folder; ``written`` are those that the service itself must be able to fill."""
    facts = machine.read_disk(path)
    if written and not facts.writable:
        fix = f"make {path} and give it to the user of the service, or configure another path"
        found = f"{path} is not a folder that this user can write to or make"
        return problem("disk", check, found, fix)
    found = f"{path}: {facts.free_mib} MiB free on {facts.mount}"
    if facts.free_mib >= _ENOUGH_MIB and _has_inodes(facts):
        return ok("disk", check, found)
    how = problem if written and facts.free_mib < _LEAST_MIB else warning
    if not _has_inodes(facts):
        found = f"{found}, and only {facts.free_inodes} files more"
    fix = f"free space on {facts.mount}, or configure a path on a larger file system"
    return how("disk", check, found, fix)


def _has_inodes(facts: DiskFacts) -> bool:
    return facts.free_inodes is None or facts.free_inodes >= _ENOUGH_INODES


def check_store(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check that the trajectory store answers and has the schema of this release."""
    condition = machine.read_store(config.store.url)
    shared = {"postgresql"} if condition.kind == "postgresql" and condition.state in _USABLE else ()
    schema = replace(_schema(condition), offers=frozenset(shared))
    findings = [schema, *_apart(condition.clock_ahead_s)]
    if condition.kind == "sqlite":
        fix = "for several nodes, set store.url to a PostgreSQL database"
        findings.append(absent("store", "shared", "a file, which serves one node", fix, "postgresql"))
    return findings


def _schema(condition: StoreCondition) -> MachineFinding:
    match condition.state:
        case StoreState.CURRENT:
            return ok("store", "schema", f"{condition.detail}: schema of this release")
        case StoreState.EMPTY:
            found = f"{condition.detail}: empty, the first start creates its tables"
            return ok("store", "schema", found)
        case StoreState.OLDER:
            found = f"{condition.detail}: schema of an earlier release"
            return warning("store", "schema", found, condition.remedy)
    return problem("store", condition.state.value, condition.detail, condition.remedy, "postgresql")


def _apart(ahead_s: float | None) -> list[MachineFinding]:
    if ahead_s is None:
        return []
    if abs(ahead_s) < _APART_S:
        return [ok("clock", "database", f"{abs(ahead_s):.2f} s from the database's")]
    found = f"{abs(ahead_s):.0f} s {'behind' if ahead_s > 0 else 'ahead of'} the database's clock"
    return [warning("clock", "database", found, "set both clocks by a time service such as chrony")]


def check_clock(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check the source of the clock, its synchronization, and that it does not jump."""
    del config
    facts = machine.read_clock()
    findings = []
    if facts.source in _SLOW_CLOCKS:
        fix = "boot with clocksource=tsc, or use a virtual machine with its host's clock (kvm-clock)"
        found = f"{facts.source}, which is slow to read: each step reads it many times"
        findings.append(warning("clock", "source", found, fix))
    else:
        findings.append(ok("clock", "source", facts.source or "unknown"))
    if abs(facts.jumped_s) > _JUMP_S:
        found = f"the wall clock moved by {facts.jumped_s:+.2f} s against the monotonic clock just now"
        fix = "let the time service adjust the clock gradually; leases do not mind, but records are misdated"
        findings.append(warning("clock", "steady", found, fix))
    else:
        findings.append(ok("clock", "steady", "runs with the monotonic clock"))
    return [*findings, _synchronized(facts)]


def _synchronized(facts: ClockFacts) -> MachineFinding:
    if facts.synchronized:
        return ok("clock", "synchronized", f"within {facts.error_s:.1f} s", "synchronized-clock")
    if facts.synchronized is None:
        found = "cannot be asked here"
        fix = "ask on the host of this container: timedatectl"
    else:
        found = "no time service corrects it"
        fix = "run a time service such as chrony: records of several nodes are otherwise out of order"
    return absent("clock", "synchronized", found, fix, "synchronized-clock")
