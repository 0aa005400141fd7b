"""What has to be there before a service starts on this machine: an engine that answers, and its images.

``auto`` is settled here, once, so that the commands can say which kind of sandbox they use and why.
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


def prepared(config: ServiceConfig, tell: Callable[[str], None]) -> ServiceConfig:
    """The configuration with the kind of sandbox settled and its images built, which may take minutes.

    With ``auto``, process sandboxes are taken where no engine answers or no image can be built. Raises
    ServiceError when ``docker`` was asked for.
    """
    kind = config.sandbox.kind
    if kind != "process":
        try:
            asyncio.run(images_built(config, tell, only_missing=True))
            kind = "docker"
        except ServiceError as error:
            if kind == "docker":
                raise
            tell(f"process sandboxes, since {error.detail}")
            kind = "process"
    if kind == "process":
        tell("process sandboxes are no security boundary: for trusted code, and for this machine only")
        _tell_what_protects(config, tell)
    return config.model_copy(update={"sandbox": config.sandbox.model_copy(update={"kind": kind})})


def _tell_what_protects(config: ServiceConfig, tell: Callable[[str], None]) -> None:
    limits = SandboxLimits(**config.sandbox.limits.model_dump())
    found = asyncio.run(protections_here(config.sandbox.state_dir, limits))
    for state, wanted in (("on", True), ("off", False)):
        if names := [name for name, on in found.items() if on is wanted]:
            tell(f"protections {state}: {', '.join(names)}")


async def images_built(
    config: ServiceConfig, tell: Callable[[str], None], *, only_missing: bool, force: bool = False
) -> list[str]:
    """Build the images of all environments; their references. ``only_missing`` is silent about the others."""
    specs = [catalog.spec for catalog in build_registry(config.environments).catalogs.values()]
    engine = await open_engine(config.sandbox)

    def say(line: str) -> None:
        if not (only_missing and line.endswith("exists already")):
            tell(line)

    try:
        return await build_images(engine, specs, say, prefix=config.sandbox.image_prefix, force=force)
    finally:
        await engine.close()
