"""Check the kernel, the user, and the limits that the service inherits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.runner.kernel.confinement import FIRST_LANDLOCK_WITH_SCOPES
from service_cli.doctor.findings import MachineFinding, ok, problem, warning

from .boxes import kind_of_boxes

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig
    from service_cli.doctor.machine import ExaminedMachine, LimitFacts


_CONTROLLERS = frozenset({"cpu", "memory", "pids"})
_OPEN_FILES = 16_384
"""HAProxy takes 2.5 descriptors for each connection, of those above the first 1,024."""
_FEWEST_OPEN_FILES = 2_048
_PROCESSES = 4_096
"""Ray, the gateway and the supervisor have some hundred threads, and a box up to ``sandbox.limits.pids``."""
_MEMORY_MIB = 2_048


def check_kernel(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check the features of the kernel that boxes use."""
    facts = machine.read_kernel()
    findings = [ok("kernel", "release", f"Linux {facts.release} on {facts.machine}")]
    if facts.landlock_abi >= FIRST_LANDLOCK_WITH_SCOPES:
        findings.append(ok("kernel", "landlock", f"ABI {facts.landlock_abi}"))
    else:
        has = f"ABI {facts.landlock_abi}" if facts.landlock_abi else "absent"
        found = f"{has}: solutions under grading get no sockets of the family AF_UNIX"
        fix = "use Linux 6.12 or later with Landlock enabled (lsm=landlock,... at boot)"
        findings.append(warning("kernel", "landlock", found, fix))
    missing = sorted(_CONTROLLERS - facts.controllers)
    if facts.cgroup_version == 0 or missing:
        found = f"no controllers {', '.join(missing)}: boxes are bounded less tightly"
        fix = "mount the control groups, and delegate these controllers to the service (Delegate= of systemd)"
        findings.append(warning("kernel", "control groups", found, fix))
    else:
        findings.append(ok("kernel", "control groups", f"version {facts.cgroup_version}"))
    if facts.user_namespaces == 0 or not facts.unprivileged_namespaces:
        found = "users without rights may make none: their process and gVisor boxes have no namespaces"
        fix = (
            "set user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 and "
            "kernel.apparmor_restrict_unprivileged_userns=0, as far as this kernel has them"
        )
        needed = machine.read_user().uid != 0 and kind_of_boxes(config, machine) != "docker"
        how = warning if needed else _unused
        findings.append(how("kernel", "user namespaces", found, fix))
    else:
        findings.append(ok("kernel", "user namespaces", "allowed"))
    return findings


def _unused(subject: str, check: str, found: str, fix: str) -> MachineFinding:
    """Return a finding about something that the boxes in use do not need."""
    del fix
    return ok(subject, check, f"{found}; not needed here")


def check_user(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check the user ids that the service and its boxes have."""
    facts = machine.read_user()
    findings = [ok("user", "service", f"{facts.name} (uid {facts.uid})")]
    if not facts.ids_free:
        fix = "stop a service on this machine that is no longer needed"
        found = "all ranges of user ids for boxes are taken by other services"
        findings.append(problem("user", "ids of boxes", found, fix))
    elif facts.uid == 0 and not facts.mapped and kind_of_boxes(config, machine) != "docker":
        found = "this user namespace lacks the user ids of boxes (from 1,000,000,000 on)"
        fix = "run the service in a container or namespace that maps them, or use Docker boxes"
        findings.append(problem("user", "ids of boxes", found, fix))
    else:
        findings.append(ok("user", "ids of boxes", "free"))
    if facts.environments_group:
        found = (
            f"the group {facts.environments_group} has id 9999: its members can read hidden tests and data"
        )
        findings.append(warning("user", "group", found, "give this group another id, or keep it empty"))
    return findings


def check_limits(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check the limits of processes, and the machine's size."""
    facts, own = machine.read_limits(), machine.read_size("process")
    boxes = machine.read_size(kind_of_boxes(config, machine))
    size = f"{boxes.cores} {'core' if boxes.cores == 1 else 'cores'}, {boxes.memory_mib} MiB"
    if own.memory_mib < boxes.memory_mib:
        size += f" for boxes, {own.memory_mib} MiB for the service"
    findings = [_open_files(facts), _processes(facts)]
    if own.memory_mib < _MEMORY_MIB:
        fix = f"give the machine or the container at least {_MEMORY_MIB} MiB"
        findings.append(warning("limits", "memory", f"{size}: little for Ray, gateway and boxes", fix))
    else:
        findings.append(ok("limits", "memory", size))
    return findings


def _open_files(facts: LimitFacts) -> MachineFinding:
    if facts.open_files is None or facts.open_files >= _OPEN_FILES:
        return ok("limits", "open files", _count(facts.open_files))
    how = problem if facts.open_files < _FEWEST_OPEN_FILES else warning
    fix = (
        f"raise the hard limit to {_OPEN_FILES} or more (LimitNOFILE= of systemd, --ulimit nofile= of Docker)"
    )
    return how("limits", "open files", f"{facts.open_files}: few connections and boxes", fix)


def _processes(facts: LimitFacts) -> MachineFinding:
    bounds = {
        "of this user": facts.processes,
        "of this control group": facts.cgroup_pids,
        "kernel.pid_max": facts.pid_max,
        "kernel.threads-max": facts.threads_max,
    }
    low = {name: bound for name, bound in bounds.items() if bound is not None and bound < _PROCESSES}
    if not low:
        return ok("limits", "processes", _count(facts.processes))
    found = ", ".join(f"{bound} {name}" for name, bound in low.items())
    fix = f"raise them to {_PROCESSES} or more (TasksMax= and LimitNPROC= of systemd, --pids-limit of Docker)"
    return warning("limits", "processes", found, fix)


def _count(bound: int | None) -> str:
    return "unlimited" if bound is None else f"{bound}"
