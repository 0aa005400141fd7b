"""``sandbox-service images``: build the container images of the environments."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from deploy.preparation import build_all_images
from sandbox_service.config.reading import read_config

from .options import ConfigOption, OverridesArgument
from .terminal import explained, notes_line, results


def build() -> typer.Typer:
    """Build the sub-commands."""
    cli = typer.Typer(help="Build the container images of the environments.", no_args_is_help=True)
    cli.callback()(_images)
    cli.command("build")(build_command)
    return cli


def _images() -> None:
    """Images are tagged with a digest of their content, so changed code makes another image."""


def build_command(
    overrides: OverridesArgument = None,
    config: ConfigOption = None,
    force: Annotated[bool, typer.Option("--force", help="Rebuild images that exist already.")] = False,
) -> None:
    """Build the images that are missing. The base comes from a registry, or from Debian's mirror.

    Examples:

        sandbox-service images build

        sandbox-service images build sandbox.image_prefix=registry.example/team/
    """
    with explained():
        resolved = read_config(config, overrides or [])
        references = asyncio.run(build_all_images(resolved, notes_line, only_missing=False, force=force))
    for reference in references:
        results().print(reference, soft_wrap=True)
