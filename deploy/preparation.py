"""Prepare this machine for a service: choose the kind of sandbox and build its images.

``auto`` is resolved here, once, so that the commands can report which kind of sandbox they use and why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.environments.registry import build_registry
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.base import SandboxLimits
from sandbox_service.sandboxes.factory import open_engine
from sandbox_service.sandboxes.host import protections_here
from sandbox_service.sandboxes.images import build_images

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig


def prepare_sandboxes(config: ServiceConfig, report: Callable[[str], None]) -> ServiceConfig:
    """Build the images and return the configuration with the kind of sandbox. This may take minutes.

    ``auto`` becomes ``process`` if no engine answers or an image cannot be built; ``docker`` then raises
    ServiceError. ``report`` gets lines about progress.
    """
    kind = config.sandbox.kind
    if kind != "process":
        try:
            asyncio.run(build_all_images(config, report, only_missing=True))
            kind = "docker"
        except ServiceError as error:
            if kind == "docker":
                raise
            report(f"process sandboxes, since {error.detail}")
            kind = "process"
    if kind == "process":
        report("process sandboxes are not a security boundary: for trusted code on this machine only")
        _report_protections(config, report)
    return config.model_copy(update={"sandbox": config.sandbox.model_copy(update={"kind": kind})})


def _report_protections(config: ServiceConfig, report: Callable[[str], None]) -> None:
    limits = SandboxLimits(**config.sandbox.limits.model_dump())
    found = asyncio.run(protections_here(config.sandbox.state_dir, limits))
    for state, wanted in (("on", True), ("off", False)):
        if names := [name for name, on in found.items() if on is wanted]:
            report(f"protections {state}: {', '.join(names)}")


async def build_all_images(
    config: ServiceConfig, report: Callable[[str], None], *, only_missing: bool, force: bool = False
) -> list[str]:
    """Build the images of all environments and return their references.

    ``only_missing`` reports no image that exists already.
    """
    specs = [catalog.spec for catalog in build_registry(config.environments).catalogs.values()]
    engine = await open_engine(config.sandbox)

    def report_new(line: str) -> None:
        if not (only_missing and line.endswith("exists already")):
            report(line)

    try:
        return await build_images(engine, specs, report_new, prefix=config.sandbox.image_prefix, force=force)
    finally:
        await engine.close()
