"""``sandbox-service images``: build the container images of the environments, list and remove them."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from deploy.preparation import build_all_images, build_root
from sandbox_service.config.reading import read_config

from .images_list import list_images
from .images_prune import prune
from .options import ConfigOption, OverridesArgument
from .terminal import explained, notes_line, results


def build() -> typer.Typer:
    """Build the sub-commands."""
    cli = typer.Typer(
        help="Build the container images of the environments, list them, and remove old ones.",
        no_args_is_help=True,
    )
    cli.callback()(_images)
    cli.command("build")(build_command)
    cli.command("list")(list_images)
    cli.command("prune")(prune)
    return cli


def _images() -> None:
    """Images are tagged with a digest of their content, so changed code makes another image."""


def build_command(
    overrides: OverridesArgument = None,
    config: ConfigOption = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Rebuild images that exist already, on a base that is fetched again."),
    ] = False,
    gvisor: Annotated[
        bool, typer.Option("--gvisor", help="Make the root folder of gVisor boxes instead; needs no engine.")
    ] = False,
) -> None:
    """Build the images that are missing. The base comes from a registry, or from Debian's mirror.

    gVisor boxes need no images but one root folder, for all environments: --gvisor makes it, from the base
    image where an engine answers, otherwise from Debian's mirror.

    Examples:

        sandbox-service images build

        sandbox-service images build sandbox.image_prefix=registry.example/team/

        sandbox-service images build --gvisor
    """
    with explained():
        resolved = read_config(config, overrides or [])
        if gvisor:
            results().print(str(asyncio.run(build_root(resolved, notes_line, force=force))), soft_wrap=True)
            return
        references = asyncio.run(build_all_images(resolved, notes_line, only_missing=False, force=force))
    for reference in references:
        results().print(reference, soft_wrap=True)
