"""Find the fleet's supervisors through Ray, and have missing ones started.

A supervisor of another version of the service is no member: it might read frames and settings otherwise.

Addresses are cached; Ray is asked every few seconds in the background, and at once when a connection failed.
While its control plane does not answer, the cached ones are used.
A supervisor that Ray knows but that does not answer keeps its last address: it is restarting, and its
instances are not lost. One that runs and is silent for too long hangs: it is killed, and Ray starts it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import ray

from sandbox_service.stream.address import TcpAddress, UnixAddress
from sandbox_service.supervisor.certificates import Certificates
from sandbox_service.telemetry import get_logger

from .members import FleetView, Member, mismatch_of
from .pings import Pings
from .scaler import ensure_scaler, fleet_scale, renew_scaler

if TYPE_CHECKING:
    from ray.actor import ActorHandle

    from sandbox_service.errors import ServiceError
    from sandbox_service.stream.address import Address
    from sandbox_service.supervisor.actor import SupervisorActor
    from sandbox_service.supervisor.options import SupervisorAddress

    from .roster import Roster
    from .scaling import FleetScale


REFRESH_INTERVAL_S = 5.0
"""Seconds between two refreshes in the background."""
REFRESH_GAP_S = 0.2
"""Least time between two refreshes."""
REFRESH_TIMEOUT_S = 3.0
"""Longest time for which a call waits for a refresh: Ray's control plane may be away for minutes, and others
take instances over without it."""
ANSWER_TIMEOUT_S = 2.0
"""Longest time for which a refresh waits for addresses."""

logger = get_logger(__name__)


class RayDiscovery:
    """The fleet as one gateway process sees it; belongs to one event loop."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self.scale: FleetScale | None = None
        """Last decision of the scaler; None without scaling."""
        self._find_scaler: Callable[[Roster], None] = renew_scaler
        self._node_id: str = ray.get_runtime_context().get_node_id()
        self._certificates = Certificates(roster.tls, server=False) if roster.tls else None
        self._addresses: dict[str, SupervisorAddress] = {}
        self._pings: Pings[ActorHandle[SupervisorActor]] = Pings(
            _address_of, answer_s=ANSWER_TIMEOUT_S, most_round_s=REFRESH_INTERVAL_S + ANSWER_TIMEOUT_S
        )
        self._hung: set[str] = set()
        self._restarted = 0
        self._members: Mapping[str, Member] = MappingProxyType({})
        self._excluded: Mapping[str, ServiceError] = MappingProxyType({})
        self._refreshed_at = 0.0
        self._has_looked = False
        self._failed = ""
        """The exception of the last refresh, which is logged once."""
        self._refreshing: asyncio.Task[None] | None = None
        self._background: asyncio.Task[None] | None = None

    @property
    def excluded(self) -> Mapping[str, ServiceError]:
        return self._excluded

    def view(self) -> FleetView:
        """Return what the last refreshes found, for the metrics."""
        return FleetView(len(self._excluded), self._restarted, self.scale)

    def start(self) -> None:
        """Begin to refresh for ever on the running event loop, unless that is so already.

        The first call of ``members`` does it, too; until then this process starts no supervisor.
        """
        if self._background is None:
            self._background = asyncio.create_task(self._refresh_forever(), name="refresh the fleet")

    async def members(self) -> Mapping[str, Member]:
        if not self._has_looked:
            await self.refresh()
            self._has_looked = True
        self.start()
        return self._members

    async def refresh(self) -> Mapping[str, Member]:
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh(), name="refresh the fleet once")
            self._refreshing.add_done_callback(self._refresh_ended)
        # Not cancelled at the timeout, because all callers of this moment share the one refresh.
        ended, _ = await asyncio.wait({self._refreshing}, timeout=REFRESH_TIMEOUT_S)
        for refresh in ended:
            # A failure is in the log, and the known supervisors are still used.
            if not self._members:
                refresh.result()
        return self._members

    async def close(self) -> None:
        tasks = [task for task in (self._background, self._refreshing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._pings.close()

    async def _refresh_forever(self) -> None:
        while True:
            # A failure is in the log; the next refresh may succeed.
            with suppress(Exception):
                await self.refresh()
            if self._certificates is not None:
                self._certificates.renew()
            await asyncio.sleep(REFRESH_INTERVAL_S)

    def _refresh_ended(self, task: asyncio.Task[None]) -> None:
        self._refreshing = None
        error = None if task.cancelled() else task.exception()
        if error is not None and repr(error) != self._failed:
            logger.error("supervisors_refresh_failed", exc_info=error)
        self._failed = "" if error is None else repr(error)

    async def _refresh(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._refreshed_at + REFRESH_GAP_S - loop.time()))
        try:
            handles = await asyncio.to_thread(self._roster.find)
            answered = await self._pings.ask_all(handles)
            kept = {name: address for name, address in self._addresses.items() if name in handles}
            found = {**kept, **answered}
            placed = {name: address.node_id for name, address in found.items()}
            dead = await asyncio.to_thread(self._roster.end_lost, handles, placed)
            self._addresses = {name: address for name, address in found.items() if name not in dead}
            await self._restart_hung(handles)
            self._tell_apart()
            if self._roster.scaling is None:
                await asyncio.to_thread(self._roster.start_missing, set(handles) - dead, placed)
            else:
                await asyncio.to_thread(self._find_scaler, self._roster)
                self._find_scaler = ensure_scaler
                self.scale = await fleet_scale(self._roster, self._node_id)
        except ray.exceptions.RayError as error:
            # Ray's control plane does not answer; the known supervisors are as good as before.
            logger.warning("supervisors_refresh_failed", reason=str(error))
        finally:
            self._refreshed_at = loop.time()

    async def _restart_hung(self, handles: Mapping[str, ActorHandle[SupervisorActor]]) -> None:
        hung = self._pings.hung(self._roster.hung_s)
        for name in sorted(hung - self._hung):
            await asyncio.to_thread(self._roster.restart_hung, name, handles[name])
            self._restarted += 1
        self._hung = hung

    def _tell_apart(self) -> None:
        """Divide the known supervisors into members and those that are excluded."""
        members: dict[str, Member] = {}
        excluded: dict[str, ServiceError] = {}
        for name, address in sorted(self._addresses.items()):
            error = mismatch_of(name, address, self._roster.version)
            if error is not None:
                excluded[name] = error
            elif address.serving:
                members[name] = self._member(address)
        for name, reason in excluded.items():
            if name not in self._excluded:
                logger.warning("supervisor_refused", supervisor=name, reason=reason.detail)
        self._members, self._excluded = MappingProxyType(members), MappingProxyType(excluded)

    def _member(self, address: SupervisorAddress) -> Member:
        reached: Address = UnixAddress(address.unix_path)
        if address.node_id != self._node_id and address.port is not None:
            reached = TcpAddress(
                address.host, address.port, self._certificates.context if self._certificates else None
            )
        return Member(address.name, reached, address.secret, address.host)


async def _address_of(handle: ActorHandle[SupervisorActor]) -> SupervisorAddress | None:
    """Return the address of a supervisor; None while it starts, and when it is gone."""
    try:
        method: Any = handle.address
        return cast("SupervisorAddress | None", await method.remote())
    except ray.exceptions.RayError:
        return None
