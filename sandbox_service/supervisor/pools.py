"""The pools of one supervisor: one for each environment, and others for images of single tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.pool.policy import Sharing

from .box_pool import BoxPool
from .closing import boxes_s
from .image_pools import ImagePools
from .node import measure_node

if TYPE_CHECKING:
    from sandbox_contract.inspection import PoolStats
    from sandbox_service.config import ServiceConfig
    from sandbox_service.environments.base import TaskImage
    from sandbox_service.environments.registry import Registry
    from sandbox_service.sandboxes.base import SandboxFactory

    from .clock import Clock


_LAYER_S = 420.0
"""Time for building the service's own layer of an image and for its removal, besides the task's build."""
_TOTALS = ("started_total", "destroyed_total", "retired_total")
_SUMMED = ("starting", "idle", "busy", "resetting", "instances", "queued", *_TOTALS)


class Pools:
    """The pools, by environment and image."""

    def __init__(
        self,
        config: ServiceConfig,
        registry: Registry,
        factory: SandboxFactory,
        clock: Clock,
        on_lost: Callable[[str, str], None],
    ) -> None:
        self._config = config
        self._registry = registry
        self._factory = factory
        self._clock = clock
        self._on_lost = on_lost
        self._node = measure_node(factory.kind)
        self._sharing = Sharing(config.tenants, config.quota.box_share)
        self._pools = {name: self._make_pool(name) for name in registry.catalogs}
        self._of_images = {name: self._make_image_pools(name) for name in registry.catalogs}
        # Apart: instances must not keep the boxes from the gradings for which they wait.
        self._of_verifiers = {name: self._make_image_pools(name) for name in registry.catalogs}

    def of(self, environment: str, image: TaskImage | None = None) -> BoxPool:
        """Return the pool of an environment of the registry, or of the image of one of its tasks.

        Raises ServiceError(TASK_INVALID) for an image where boxes are no containers, or OverCapacityError
        while too many images are in use.
        """
        if image is None:
            return self._pools[environment]
        self._require_containers(environment, image)
        return self._of_images[environment].pool_of(image)

    def of_verifier(self, environment: str, image: TaskImage) -> BoxPool:
        """Return the pool of an image in which tasks are graded. Raises as ``of``."""
        self._require_containers(environment, image)
        return self._of_verifiers[environment].pool_of(image)

    async def start(self) -> None:
        """Destroy the boxes that an earlier run left, then start the minimum of boxes."""
        await self._factory.sweep()
        self.decide()

    def decide(self) -> None:
        """Let every pool decide again, since time has passed."""
        for name in self._pools:
            for pool in self._all_of(name):
                pool.decide()

    def stats(self) -> tuple[PoolStats, ...]:
        """Return the numbers of each environment, its images' boxes included."""
        return tuple(self._stats_of(name) for name in self._pools)

    async def close(self) -> None:
        """Destroy all boxes."""
        # The pools of images keep to the time of a pool themselves.
        timeout_s = 2 * boxes_s(self._config.deadline)
        await asyncio.gather(
            *(pool.close() for pool in self._pools.values()),
            *(pools.close(timeout_s) for pools in self._of_images.values()),
            *(pools.close(timeout_s) for pools in self._of_verifiers.values()),
        )

    def _require_containers(self, environment: str, image: TaskImage) -> None:
        if self._factory.kind == "docker":
            return
        settings = f"environments.{environment}.images=false and .skip_unsupported=true"
        kind = {"process": "process boxes", "gvisor": "gVisor boxes"}.get(self._factory.kind, "these boxes")
        detail = (
            f"the task {image.task_id} needs an image of its own ({image.reason}), which {kind} do not have; "
            f"serve it with a Docker engine (sandbox.kind=docker), or leave such tasks out ({settings})"
        )
        raise ServiceError(ErrorCode.TASK_INVALID, detail)

    def _make_image_pools(self, name: str) -> ImagePools:
        bounds, now = self._config.sandbox.task_images, self._clock.monotonic
        return ImagePools(name, partial(self._make_pool, name), bounds, now)

    def _make_pool(self, name: str, image: TaskImage | None = None) -> BoxPool:
        spec, config = self._registry.catalog(name).spec, self._config.pool_of(name)
        deadlines = self._config.deadline
        if image is not None:
            spec = replace(spec, task_image=image, resources=image.resources)
            most = min(
                self._config.sandbox.task_images.boxes_per_image,
                self._node.max_boxes(image.resources.memory_mib),
            )
            config = config.model_copy(update={"min_boxes": 0, "max_boxes": most})
            # The first start builds the image. Creates that wait for it may time out, and are retried.
            start_s = deadlines.start_s + image.timeout_s + _LAYER_S
            deadlines = deadlines.model_copy(update={"start_s": start_s})
        return BoxPool(
            spec, config, deadlines, self._factory, self._clock, self._on_lost, self._node, self._sharing
        )

    def _all_of(self, name: str) -> Iterable[BoxPool]:
        return (self._pools[name], *self._of_images[name], *self._of_verifiers[name])

    def _stats_of(self, name: str) -> PoolStats:
        own, images, verifiers = self._pools[name].stats(), self._of_images[name], self._of_verifiers[name]
        of_images = [pool.stats() for pool in images]
        of_verifiers = [pool.stats() for pool in verifiers]
        sums = {field: _sum(field, [own, *of_images, *of_verifiers]) for field in _SUMMED}
        # Gradings are neither instances nor creates.
        for field in ("instances", "queued"):
            sums[field] -= _sum(field, of_verifiers)
        for total in _TOTALS:
            sums[total] += getattr(images, total) + getattr(verifiers, total)
        return own.model_copy(
            update={
                **sums,
                "image_busy": _sum("busy", of_images),
                "image_queued": _sum("queued", of_images),
                "max_image_boxes": images.max_boxes,
                "verifier_busy": _sum("busy", of_verifiers),
                "max_verifier_boxes": verifiers.max_boxes,
                "images": images.count_used(),
                "refused_images": images.count_refused(),
                "max_images": images.max_images,
            }
        )


def _sum(field: str, stats: Iterable[PoolStats]) -> int:
    return sum(getattr(each, field) for each in stats)
