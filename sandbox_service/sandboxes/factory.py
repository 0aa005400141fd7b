"""Choose the kind of boxes of this node: Docker containers, gVisor sandboxes, or processes."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_service.errors import ServiceError, TrialTimeoutError
from sandbox_service.telemetry import get_logger

from .agent_packages import check_packages
from .base import SandboxLimits
from .engine_runtimes import chosen_runtime
from .state import StateDir, remove_folder

if TYPE_CHECKING:
    from sandbox_service.config import SandboxConfig

    from .base import SandboxFactory
    from .docker import DockerEngine, EngineInfo


logger = get_logger(__name__)

CONNECT_S = 20.0
"""Time for an engine's first answer. One that listens and is late is not absent: it may be starting."""

OLDEST_ENGINE = (20, 10, 10)
"""The first version that supports an errno per system call, which threads in the box need."""
OLDEST_RUNC = (1, 1, 12)
"""The first version without the leaked descriptor of CVE-2024-21626."""
MOUNT_RACES = (((1, 1, 12), (1, 2, 8)), ((1, 3, 0), (1, 3, 3)))
"""Ranges of versions, end excluded, with CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881."""


async def open_factory(
    config: SandboxConfig,
    node: str,
    start_timeout_s: float = 60.0,
    secret: Sequence[Path] = (),
    agent_packages: Mapping[str, Path] = MappingProxyType({}),
) -> SandboxFactory:
    """Return the factory that the configuration asks for.

    ``node`` names this supervisor on this machine: it labels what the factory makes, and ``sweep`` removes
    only those. ``secret`` are files and folders that process boxes must not see, ``agent_packages`` folders
    that agents use. Raises ServiceError(SANDBOX_FAILED) when ``docker`` is configured and no engine answers,
    when ``gvisor`` is and boxes of it cannot be started, or when agents could not read a package.
    """
    check_packages(agent_packages)
    limits = SandboxLimits(**config.limits.model_dump())
    engine = await _engine_for(config)
    if engine is None and config.kind != "process":
        gvisor = await _gvisor_factory(config, node, limits, start_timeout_s, agent_packages)
        if gvisor is not None:
            return gvisor
    if engine is None:
        from .process import ProcessFactory

        return ProcessFactory(
            StateDir.open(config.state_dir, node),
            node,
            limits,
            start_timeout_s=start_timeout_s,
            instances_per_box=config.process_instances_per_box,
            secret=secret,
            agent_packages=agent_packages,
        )
    from .container import ContainerChoices, ContainerFactory

    try:
        facts = await engine.engine_info()
        for warning in version_warnings(facts):
            logger.warning("docker_version", warning=warning)
        if facts.unbounded:
            logger.warning("docker_limits", warning=limits_warning(facts))
        runtime = chosen_runtime(config, facts)
        state = StateDir.open(config.state_dir, node)
    except BaseException:
        await engine.close()
        raise
    return ContainerFactory(
        engine,
        facts,
        state,
        node,
        limits,
        start_timeout_s=start_timeout_s,
        choices=ContainerChoices(runtime, config.image_prefix, agent_packages, config.task_images),
    )


async def _gvisor_factory(
    config: SandboxConfig,
    node: str,
    limits: SandboxLimits,
    start_timeout_s: float,
    agent_packages: Mapping[str, Path],
) -> SandboxFactory | None:
    """Return a factory of gVisor boxes; None if ``auto`` finds that none can be made here.

    Raises ServiceError otherwise, and where only a busy machine kept ``auto`` from finding it out.
    """
    from .gvisor import GvisorFactory
    from .root_folder import check_root, root_folder
    from .runsc import open_runsc

    root = config.gvisor_root or root_folder()
    state: StateDir | None = None
    try:
        check_root(root)
        state = StateDir.open(config.state_dir, node)
        runsc = await open_runsc(config.runsc, state, config.gvisor_platform, root)
    except ServiceError as error:
        if state is not None:
            state.close()
        if config.kind == "gvisor" or isinstance(error, TrialTimeoutError):
            raise
        logger.info("process_sandboxes_chosen", reason=error.detail)
        return None
    return GvisorFactory(
        runsc, root, state, node, limits, start_timeout_s=start_timeout_s, agent_packages=agent_packages
    )


async def try_gvisor(config: SandboxConfig) -> str:
    """Return the path of ``runsc`` after a trial box. Raises ServiceError when no box can be started."""
    from .root_folder import check_root, root_folder
    from .runsc import installed_runsc, open_runsc

    # The program first: without it nothing is to be unpacked.
    await asyncio.to_thread(installed_runsc, config.runsc)
    root = config.gvisor_root or root_folder()
    check_root(root)
    state = StateDir.open(config.state_dir, f"trial-{secrets.token_hex(4)}")
    try:
        return (await open_runsc(config.runsc, state, config.gvisor_platform, root)).program
    finally:
        state.close()
        remove_folder(state.path)


async def open_engine(config: SandboxConfig) -> DockerEngine:
    """Return the configured Docker engine.

    Raises ServiceError(SANDBOX_FAILED) when none listens, and TrialTimeoutError when none answers in time.
    """
    from .docker import DockerEngine

    return await DockerEngine.connect(config.docker_host, CONNECT_S)


def version_warnings(facts: EngineInfo) -> list[str]:
    """Return warnings about known faults of an engine's version, which is used all the same."""
    warnings: list[str] = []
    engine, runc = _version(facts.version), _version(facts.runc)
    if engine and engine < OLDEST_ENGINE:
        warnings.append(
            f"Docker {facts.version} is older than 20.10.10: threads fail in its boxes; update it"
        )
    if runc and runc < OLDEST_RUNC:
        warnings.append(
            f"runc {facts.runc} is older than 1.1.12, which closed CVE-2024-21626 (escape through a leaked "
            "descriptor); update it, unless your distribution has patched this version"
        )
    elif runc and any(since <= runc < fixed for since, fixed in MOUNT_RACES):
        warnings.append(
            f"runc {facts.runc} has the mount races CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881, which "
            "1.2.8 and 1.3.3 closed; update it, unless your distribution has patched this version"
        )
    return warnings


def limits_warning(facts: EngineInfo) -> str:
    """Return a warning about limits that an engine cannot enforce, which is used all the same."""
    return (
        f"the engine does not bound the {', '.join(facts.unbounded)} of boxes, so an agent can use up the "
        "machine's: delegate control groups to it, or enable swap accounting (docs/operations/one_machine.md)"
    )


async def _engine_for(config: SandboxConfig) -> DockerEngine | None:
    if config.kind in ("process", "gvisor"):
        return None
    try:
        return await open_engine(config)
    except ServiceError as error:
        if config.kind == "docker" or isinstance(error, TrialTimeoutError):
            raise
        logger.info("no_docker_engine", reason=error.detail)
        return None


def _version(text: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else ()
