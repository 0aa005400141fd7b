"""Check which kinds of boxes this machine can have, and which one the service would use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deploy.exposure import check_reach
from sandbox_service.errors import ServiceError
from sandbox_service.gateway.auth import ExposureError
from sandbox_service.sandboxes.engine_runtimes import REGISTER_COMMAND, chosen_runtime, runs_in_gvisor
from sandbox_service.sandboxes.factory import limits_warning, version_warnings
from service_cli.doctor.findings import MachineFinding, absent, ok, problem, warning

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig
    from sandbox_service.sandboxes.docker import EngineInfo
    from service_cli.doctor.machine import ExaminedMachine


_INSTALL_ENGINE = (
    "install Docker (in a checkout on Debian: make engine), start it, and let this user reach its socket"
)
_SLOW_STORAGE = frozenset({"vfs", "aufs", "devicemapper"})
_PROTECTION_FIXES = {
    "own user ids": (
        "run the service as root, with an interpreter and a sandbox.state_dir that other users can reach"
    ),
    "own namespaces": "run as root, or allow user namespaces, and install unshare (util-linux)",
    "own bounded folders": "as for own namespaces",
    "filtered system calls": "use a kernel with seccomp, on x86_64 or aarch64",
    "own abstract sockets": "use Linux 6.12 or later with Landlock enabled (lsm=landlock,... at boot)",
    "covered files of service and users": "as for own namespaces",
    "hidden processes of others": "as for own namespaces and own user ids",
}


def _capability(protection: str) -> str:
    return protection.replace(" ", "-")


PROTECTIONS = frozenset(map(_capability, _PROTECTION_FIXES))
"""The protections of process boxes, as ``--require`` names them."""


def kind_of_boxes(config: ServiceConfig, machine: ExaminedMachine) -> str:
    """Return the kind of boxes that ``serve`` would choose here."""
    wanted = config.sandbox.kind
    if wanted != "auto":
        return wanted
    if config.sandbox.docker_runtime is not None:
        return "docker"
    try:
        chosen_runtime(config.sandbox, machine.read_engine(config))
    except ServiceError:
        pass
    else:
        return "docker"
    try:
        machine.try_gvisor(config)
    except ServiceError:
        return "process"
    return "gvisor"


def check_kind(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check that the boxes which would be used are a security boundary, and may serve the address."""
    kind = kind_of_boxes(config, machine)
    chosen = f"{kind} boxes ({'chosen' if config.sandbox.kind == 'auto' else 'configured'})"
    if kind == "process":
        fix = "use Docker or gVisor (see engine and gvisor) for models that you do not trust"
        found = f"{chosen}, which are no security boundary and serve this machine only"
        findings = [warning("boxes", "kind", found, fix)]
    else:
        findings = [ok("boxes", "kind", chosen)]
    settled = config.model_copy(update={"sandbox": config.sandbox.model_copy(update={"kind": kind})})
    try:
        check_reach(settled)
    except ExposureError as error:
        fix = "set server.api_keys (sandbox-service keys new), a kind of boxes, or server.host accordingly"
        findings.append(problem("boxes", "exposure", str(error), fix))
    return findings


def check_engine(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check the container engine: whether it answers, its versions, storage, runtimes and users."""
    try:
        facts = machine.read_engine(config)
    except ServiceError as error:
        sandbox = config.sandbox
        required = sandbox.kind == "docker" or (sandbox.kind == "auto" and sandbox.docker_runtime is not None)
        how = problem if required else absent
        return [how("engine", "reachable", error.detail, _INSTALL_ENGINE, "docker", "runsc")]
    found = (
        f"Docker {facts.version}, runc {facts.runc or 'of unknown version'}, storage {facts.storage_driver}, "
        f"control groups {facts.cgroup_version}, runtime {facts.default_runtime}"
    )
    findings = [ok("engine", "reachable", found, "docker")]
    findings += [
        warning("engine", "version", text.partition(";")[0], "update it, unless your distribution patched it")
        for text in version_warnings(facts)
    ]
    if facts.unbounded:
        text, _, fix = limits_warning(facts).partition(": ")
        findings.append(warning("engine", "limits", text, fix))
    if facts.storage_driver in _SLOW_STORAGE:
        fix = "set storage-driver to overlay2 in the engine's daemon.json; images are then built again"
        findings.append(warning("engine", "storage", f"the driver {facts.storage_driver} is slow", fix))
    return [*findings, _runtime(config, facts), _users(facts)]


def _runtime(config: ServiceConfig, facts: EngineInfo) -> MachineFinding:
    wanted = config.sandbox.docker_runtime
    known = ", ".join(sorted(facts.runtimes))
    if wanted is not None and wanted not in facts.runtimes:
        fix = f"register {wanted} in the engine's daemon.json, or set sandbox.docker_runtime to: {known}"
        return problem("engine", "runtime", f"the engine has no runtime {wanted}", fix, "runsc")
    try:
        runtime = chosen_runtime(config.sandbox, facts)
    except ServiceError as error:
        found, _, fix = error.detail.partition("; ")
        return problem("engine", "runtime", found, fix, "runsc")
    used = f"uses {runtime or facts.default_runtime}, has {known}"
    if runs_in_gvisor(runtime, facts) or True in facts.gvisor.values():
        return ok("engine", "runtime", used, "runsc")
    fix = (
        f"for models that you do not trust, register gVisor ({REGISTER_COMMAND}) and restart the engine, "
        "or set sandbox.kind to gvisor"
    )
    lacking = "gVisor without the flag that boxes need" if facts.gvisor else "no gVisor"
    return absent("engine", "runtime", f"{used}: {lacking}", fix, "runsc")


def _users(facts: EngineInfo) -> MachineFinding:
    if facts.rootless or facts.remapped_root is not None:
        return ok("engine", "users", "rootless" if facts.rootless else "users are remapped")
    fix = "set userns-remap in the engine's daemon.json, or use a rootless engine"
    return warning("engine", "users", "root of a container is root of this machine", fix)


def check_images(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check that the engine has the images of all environments that are served."""
    if kind_of_boxes(config, machine) != "docker":
        fix = "to use images, set sandbox.kind to docker on a machine with an engine"
        return [absent("images", "built", "not examined: the boxes are not Docker's", fix, "images")]
    try:
        missing = machine.find_missing_images(config)
    except ServiceError as error:
        fix = "fix the engine or the environment that it names"
        return [problem("images", "built", error.detail, fix, "images")]
    if missing:
        # A tag is the environment's name and a digest.
        names = sorted(reference.rpartition(":")[2].rpartition("-")[0] for reference in missing)
        found = f"{len(missing)} are missing, those of {', '.join(names)}"
        fix = "build them before the first start, which else does it: sandbox-service images build"
        return [warning("images", "built", found, fix, "images")]
    return [ok("images", "built", "all images of served environments exist", "images")]


def check_gvisor(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check gVisor by a trial box."""
    try:
        program = machine.try_gvisor(config)
    except ServiceError as error:
        how = problem if config.sandbox.kind == "gvisor" else absent
        fix = (
            "install runsc (in a checkout on Debian: make runsc), then: sandbox-service images build --gvisor"
        )
        return [how("gvisor", "trial", error.detail, fix, "gvisor")]
    return [ok("gvisor", "trial", f"{program} starts boxes", "gvisor")]


def check_protections(config: ServiceConfig, machine: ExaminedMachine) -> list[MachineFinding]:
    """Check what would confine process boxes here; what is off matters only where they are used."""
    found = machine.try_protections(config)
    used = kind_of_boxes(config, machine) == "process"
    how = warning if used else absent
    names = [name for name, active in found.items() if active]
    confined = f"active: {', '.join(names) or 'nothing'}"
    findings = [ok("processes", "confined", confined, *map(_capability, names))]
    return findings + [
        how("processes", name, "not active", _PROTECTION_FIXES[name], _capability(name))
        for name, active in found.items()
        if not active
    ]
