"""Mark what a supervisor uses on its node, so that ``envs prune`` and ``images prune`` keep it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from sandbox_service.environments.in_use import UseMarks
from sandbox_service.environments.provisions import cache_root
from sandbox_service.sandboxes.image_pruning import mark_image
from sandbox_service.sandboxes.images import image_reference
from sandbox_service.sandboxes.root_folder import root_folder

if TYPE_CHECKING:
    from sandbox_service.config import ServiceConfig
    from sandbox_service.environments.registry import Registry

logger = logging.getLogger(__name__)


def mark_uses(config: ServiceConfig, registry: Registry, kind: str) -> UseMarks:
    """Mark what the served environments use on this node, and return the marks.

    A mark that cannot be set, as in a read-only file system, is logged: the service runs without it.
    """
    marks = UseMarks()
    for name, mark in _uses(config, registry, kind, marks):
        try:
            mark()
        except OSError as error:
            reason = error.strerror or error
            logger.warning(
                "cannot mark %s as used: %s; envs prune and images prune would remove it", name, reason
            )
    return marks


def _uses(
    config: ServiceConfig, registry: Registry, kind: str, marks: UseMarks
) -> Iterator[tuple[str, Callable[[], None]]]:
    cache = cache_root() / "images"
    for catalog in registry.catalogs.values():
        spec = catalog.spec
        if spec.provisions is not None:
            yield str(spec.provisions.folder), partial(marks.add, spec.provisions.folder)
        if kind == "docker":
            reference = image_reference(spec, config.sandbox.image_prefix)
            yield reference, partial(mark_image, marks, cache, reference)
    if kind == "gvisor":
        root = config.sandbox.gvisor_root or root_folder()
        yield str(root), partial(marks.add, root)
