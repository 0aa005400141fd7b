"""The pools of one supervisor, one for each environment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandbox_service.pool.policy import Sharing

from .box_pool import BoxPool
from .node import measure_node

if TYPE_CHECKING:
    from sandbox_contract.inspection import PoolStats
    from sandbox_service.config import ServiceConfig
    from sandbox_service.environments.registry import Registry
    from sandbox_service.sandboxes.base import SandboxFactory

    from .clock import Clock


class Pools:
    """The pools, by environment."""

    def __init__(
        self,
        config: ServiceConfig,
        registry: Registry,
        factory: SandboxFactory,
        clock: Clock,
        on_lost: Callable[[str, str], None],
    ) -> None:
        self._factory = factory
        node = measure_node()
        sharing = Sharing(config.tenants, config.quota.box_share)
        self._pools = {
            name: BoxPool(
                catalog.spec, config.pool_of(name), config.deadline, factory, clock, on_lost, node, sharing
            )
            for name, catalog in registry.catalogs.items()
        }

    def of(self, environment: str) -> BoxPool:
        """Return the pool of an environment of the registry."""
        return self._pools[environment]

    async def start(self) -> None:
        """Destroy the boxes that an earlier run left, then start the minimum of boxes."""
        await self._factory.sweep()
        self.decide()

    def decide(self) -> None:
        """Let every pool decide again, since time has passed."""
        for pool in self._pools.values():
            pool.decide()

    def stats(self) -> tuple[PoolStats, ...]:
        """Return the numbers of all pools."""
        return tuple(pool.stats() for pool in self._pools.values())

    async def close(self) -> None:
        """Destroy all boxes."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))
