"""``sandbox-service images``: the container images of the environments."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from deploy.config_file import read_config
from sandbox_service.environments.registry import build_registry
from sandbox_service.sandboxes.docker import Engine
from sandbox_service.sandboxes.images import build_images

from .options import ConfigOption, OverridesArgument
from .terminal import explained, notes, results

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig

__all__ = ["build"]

_CONNECT_S = 10.0


def build() -> typer.Typer:
    """The sub-commands."""
    cli = typer.Typer(help="Build the container images of the environments.", no_args_is_help=True)
    cli.callback()(_images)
    cli.command("build")(build_command)
    return cli


def _images() -> None:
    """Images are named after their content: changed code is another image."""


def build_command(
    overrides: OverridesArgument = None,
    config: ConfigOption = None,
    force: Annotated[bool, typer.Option("--force", help="Build what is there already, too.")] = False,
) -> None:
    """Build the images that are missing. The base comes from a registry, or from Debian's mirror.

    Examples:

        sandbox-service images build

        sandbox-service images build sandbox.image_prefix=registry.example/team/
    """
    with explained():
        references = asyncio.run(_build(read_config(config, overrides or []), force))
    for reference in references:
        results().print(reference, soft_wrap=True)


async def _build(config: ServiceConfig, force: bool) -> list[str]:
    registry = build_registry(config.environments)
    specs = [catalog.spec for catalog in registry.catalogs.values()]
    engine = await Engine.connect(config.sandbox.docker_host, _CONNECT_S)
    console = notes()
    try:
        return await build_images(
            engine,
            specs,
            lambda line: console.print(line, markup=False),
            prefix=config.sandbox.image_prefix,
            force=force,
        )
    finally:
        await engine.close()
