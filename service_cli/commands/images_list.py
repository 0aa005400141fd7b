"""``sandbox-service images list``: the images of the project on this machine's engine, and their sizes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sandbox_service.config.reading import read_config
from sandbox_service.sandboxes.docker_images import DockerImages, KeptImage
from sandbox_service.sandboxes.factory import open_engine
from sandbox_service.sandboxes.image_labels import MARK, PREFIX
from sandbox_service.sandboxes.image_pruning import is_box_image

from .options import ConfigOption, OverridesArgument
from .terminal import explained, results, write_json

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig

_MIB = 1024 * 1024
_REVISION_DIGITS = 12
_UNNAMED = "<none>:<none>"


def list_images(
    overrides: OverridesArgument = None,
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the images that the project has built here, with their sizes and what they were built from.

    These are images of environments and tasks, those that they are built from, and those of service and
    trainer. The size is that of all layers; a layer that several images share is on the disk once, so the
    size of its own is what an image adds to the others.

    Examples:

        sandbox-service images list

        sandbox-service images list sandbox.image_prefix=registry.example/team/ --json
    """
    with explained():
        found = asyncio.run(_listed(read_config(config, overrides or [])))
    if as_json:
        write_json([_record(image) for image in found])
        return
    table = Table("image", "MiB", "its own MiB", "version", "revision", box=None, pad_edge=False)
    for image in found:
        each = _record(image)
        sizes = (f"{each['mib']:.0f}", f"{each['own_mib']:.0f}")
        commit, mark, changes = str(each["revision"]).partition("-")
        revision = f"{commit[:_REVISION_DIGITS]}{mark}{changes}"
        table.add_row(image.reference, *sizes, str(each["version"]), revision)
    results().print(table)


async def _listed(config: ServiceConfig) -> list[KeptImage]:
    engine = await open_engine(config.sandbox)
    try:
        named = await DockerImages(engine).named()
    finally:
        await engine.close()
    return sorted(
        (image for image in named if is_of_the_project(image, config.sandbox.image_prefix)),
        key=lambda image: image.reference,
    )


def is_of_the_project(image: KeptImage, prefix: str) -> bool:
    """Return whether an image is one that the project builds; those of earlier releases have no label.

    What a build of several stages leaves has the labels of the stage's base, but no name.
    """
    if image.reference == _UNNAMED:
        return False
    return MARK in image.labels or is_box_image(image.reference, prefix)


def _record(image: KeptImage) -> dict[str, str | float]:
    return {
        "image": image.reference,
        "mib": round(image.all_bytes / _MIB, 1),
        "own_mib": round(image.own_bytes / _MIB, 1),
        "version": image.labels.get(f"{PREFIX}version", ""),
        "revision": image.labels.get(f"{PREFIX}revision", ""),
    }
