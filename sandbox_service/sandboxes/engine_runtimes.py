"""Container runtimes of an engine: which of them are gVisor, and which one boxes are started with.

gVisor lets a box make its socket in a folder of the host with one of its flags only, and with some engines it
starts a box without network with another one only, so an operator should register it with both. A box of Kata
Containers has a kernel of its own, and no process of the host can connect to a unix socket of another kernel.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

if TYPE_CHECKING:
    from sandbox_service.config import SandboxConfig

    from .docker import DockerEngine, EngineInfo
    from .hardening import Json


_SOCKET_FLAGS = frozenset({"--host-uds=create", "--host-uds=all"})
REGISTER_COMMAND = "runsc install -- --host-uds=create --network=none"
"""Registers gVisor with an engine, which has to be restarted."""
_TRIAL_S = 30.0


def gvisor_runtimes(listed: Mapping[str, Mapping[str, Any]]) -> dict[str, bool | None]:
    """Return the runtimes that are gVisor, and whether boxes can make their sockets there.

    ``listed`` are the engine's runtimes, as its API describes them. The flags of a runtime that containerd
    starts by a shim are not among that: None.
    """
    return {
        name: bool(_SOCKET_FLAGS.intersection(runtime.get("runtimeArgs") or ()))
        if "path" in runtime
        else None
        for name, runtime in listed.items()
        if "runsc" in _program(name, runtime)
    }


def kata_runtimes(listed: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Return the runtimes that are Kata Containers, whose boxes cannot be reached, from the same list."""
    return frozenset(name for name, runtime in listed.items() if "kata" in _program(name, runtime))


def _program(name: str, runtime: Mapping[str, Any]) -> str:
    return PurePath(str(runtime.get("path") or runtime.get("runtimeType") or name)).name


def chosen_runtime(config: SandboxConfig, facts: EngineInfo) -> str | None:
    """Return the runtime of boxes, None for the engine's default: ``auto`` takes gVisor where it is ready.

    Raises ServiceError(SANDBOX_FAILED) when the engine lacks the configured one, or when boxes cannot run in
    the one that would be used; the text says what is wrong, and after a semicolon what to do.
    """
    wanted = config.docker_runtime
    if wanted is not None and wanted not in facts.runtimes:
        known = ", ".join(sorted(facts.runtimes))
        detail = f"unknown Docker runtime {wanted!r} in sandbox.docker_runtime; the engine has: {known}"
        raise ServiceError(ErrorCode.SANDBOX_FAILED, detail)
    runtime = wanted
    if wanted is None and config.kind == "auto" and facts.default_runtime not in facts.gvisor:
        runtime = next((name for name, ready in sorted(facts.gvisor.items()) if ready), None)
    check_runtime(runtime, facts)
    return runtime


def check_runtime(runtime: str | None, facts: EngineInfo) -> None:
    """Raise ServiceError(SANDBOX_FAILED) if boxes cannot run in a runtime, None for the engine's default."""
    used = runtime or facts.default_runtime
    if facts.gvisor.get(used) is False:
        detail = (
            f"the Docker runtime {used} is gVisor without the flag by which boxes make their sockets; "
            f"register it with: {REGISTER_COMMAND}; then restart the engine"
        )
        raise ServiceError(ErrorCode.SANDBOX_FAILED, detail)
    if used in facts.kata:
        detail = (
            f"the Docker runtime {used} is Kata, through whose kernel the service cannot connect to a box's "
            "socket; set sandbox.docker_runtime to another runtime of the engine, such as runc or gVisor"
        )
        raise ServiceError(ErrorCode.SANDBOX_FAILED, detail)


async def try_runtime(engine: DockerEngine, runtime: str, image: str) -> None:
    """Start a container that does nothing. Raises ServiceError when the runtime cannot start it."""
    name = f"sandbox-trial-{secrets.token_hex(4)}"
    host: dict[str, Json] = {"NetworkMode": "none", "Runtime": runtime, "LogConfig": {"Type": "none"}}
    try:
        await engine.run(name, {"Image": image, "Entrypoint": ["/bin/true"], "HostConfig": host}, _TRIAL_S)
    finally:
        await engine.remove(name, _TRIAL_S)


def runs_in_gvisor(runtime: str | None, facts: EngineInfo) -> bool:
    """Return whether a runtime, or the engine's default one for None, is gVisor."""
    return (runtime or facts.default_runtime) in facts.gvisor
