"""Finds the fleet's supervisors through Ray, and has missing ones started.

Addresses are kept; a look at Ray happens every few seconds in the background, and at once when a connection
failed. A supervisor that Ray knows but that does not answer keeps its last address: it is restarting, and
its instances are not gone.
"""

from __future__ import annotations

import asyncio
import logging
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import ray

from sandbox_service.stream.address import TcpAddress, UnixAddress

from .members import Member

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from ray.actor import ActorHandle

    from sandbox_service.supervisor.actor import SupervisorActor
    from sandbox_service.supervisor.seat import SupervisorAddress

    from .roster_discovery import Roster

__all__ = ["RayDiscovery"]

LOOK_INTERVAL_S = 5.0
"""How often the fleet is looked at when nobody asks for it."""
REFRESH_GAP_S = 0.2
"""Least time between two looks."""
ANSWER_TIMEOUT_S = 2.0
"""How long a supervisor may take to tell its address."""

logger = logging.getLogger(__name__)


class RayDiscovery:
    """The fleet as one gateway process sees it; belongs to one event loop."""

    def __init__(self, roster: Roster, *, start_missing: bool = True) -> None:
        self._roster = roster
        self._start_missing = start_missing
        self._node_id: str = ray.get_runtime_context().get_node_id()
        self._tls: ssl.SSLContext | None = roster.tls.context(server=False) if roster.tls else None
        self._addresses: dict[str, SupervisorAddress] = {}
        self._members: Mapping[str, Member] = MappingProxyType({})
        self._look_at = 0.0
        self._look: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    async def members(self) -> Mapping[str, Member]:
        if self._watch is None:
            await self.refresh()
            self._watch = asyncio.create_task(self._keep_looking(), name="watch the fleet")
        return self._members

    async def refresh(self) -> Mapping[str, Member]:
        if self._look is None:
            self._look = asyncio.create_task(self._look_again(), name="look at the fleet")
            self._look.add_done_callback(self._looked)
        await asyncio.shield(self._look)
        return self._members

    async def close(self) -> None:
        tasks = [task for task in (self._watch, self._look) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_INTERVAL_S)
            await self.refresh()

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._look = None
        if not task.cancelled() and task.exception() is not None:
            logger.error("could not look at the fleet", exc_info=task.exception())

    async def _look_again(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._look_at + REFRESH_GAP_S - loop.time()))
        try:
            handles = await asyncio.to_thread(self._roster.find)
            answers = await asyncio.gather(*(_address_of(handle) for handle in handles.values()))
            answered = {address.name: address for address in answers if address is not None}
            kept = {name: address for name, address in self._addresses.items() if name in handles}
            found = {**kept, **answered}
            seated = {name: address.node_id for name, address in found.items()}
            dead = await asyncio.to_thread(self._roster.bury, handles, seated)
            self._addresses = {name: address for name, address in found.items() if name not in dead}
            self._members = MappingProxyType(
                {name: self._member(address) for name, address in sorted(self._addresses.items())}
            )
            if self._start_missing:
                await asyncio.to_thread(self._roster.start_missing, set(handles) - dead, seated)
        except ray.exceptions.RayError as error:
            # The control plane is away; the supervisors that were known are as good as before.
            logger.warning("could not look at the fleet: %s", error)
        finally:
            self._look_at = loop.time()

    def _member(self, address: SupervisorAddress) -> Member:
        if address.node_id == self._node_id or address.port is None:
            return Member(address.name, UnixAddress(address.unix_path), address.secret)
        return Member(address.name, TcpAddress(address.host, address.port, self._tls), address.secret)


async def _address_of(handle: ActorHandle[SupervisorActor]) -> SupervisorAddress | None:
    """The address that a supervisor tells, or None when it does not answer now."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            method: Any = handle.address
            return cast("SupervisorAddress | None", await method.remote())
    except (TimeoutError, ray.exceptions.RayError):
        return None
