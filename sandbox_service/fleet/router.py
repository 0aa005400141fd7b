"""Send a gateway's frame to the supervisor that owns the instance; no directory of instances is kept.

An id that the service made names its supervisor. An id that a client chose belongs to the supervisor that
wins it by rendezvous hashing; since the fleet may have changed after the create, the others are asked once
when that one does not know it. A frame is sent a second time only when it was never sent, or when the
supervisor reports that it did not act on it. Everything else is settled by the idempotency key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import reply_or_raise
from sandbox_service.wire.frames import Frame, Op

from .connections import SupervisorConnections
from .placement import least_loaded, owner_of, rank

if TYPE_CHECKING:
    from sandbox_service.stream.options import StreamOptions

    from .members import Discovery, Member


MOVED_PAUSE_S = 0.1
"""Pause between two refreshes while a supervisor does not answer."""

_NOT_MINE = frozenset({ErrorCode.UNKNOWN_INSTANCE})
_NOT_DONE = frozenset({ErrorCode.DRAINING, ErrorCode.QUEUE_FULL, ErrorCode.SUPERVISOR_UNAVAILABLE})
_PASS_ON = {Op.CREATE: frozenset({ErrorCode.DRAINING})}
"""Errors after which the next supervisor is asked; none of these supervisors has done anything."""


class Router:
    """The connections from one gateway to all supervisors."""

    def __init__(self, discovery: Discovery, options: StreamOptions | None = None) -> None:
        self._discovery = discovery
        self._connections = SupervisorConnections(options)
        self._turn = 0

    async def call(
        self,
        op: Op,
        *,
        tenant: str,
        instance_id: str,
        meta: Mapping[str, object],
        body: bytes,
        timeout_s: float,
    ) -> Frame:
        """Return the answer of the supervisor that owns the instance, or of one chosen for a new instance."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        frame = Frame(op, 0, instance_id, {**meta, "tenant": tenant}, body)
        order = self._order(frame, await self._candidates(frame, deadline))
        free = op is Op.CREATE and not instance_id and meta.get("key") is None
        pass_on = _NOT_DONE if free else _PASS_ON.get(op, _NOT_MINE)
        # Wait only for the supervisor that the request depends on: the responsible one, or the last one left.
        awaited = order[-1] if free else order[0]
        first: ServiceError | None = None
        for name in order:
            try:
                return reply_or_raise(await self._send(name, frame, deadline, wait=name == awaited))
            except ServiceError as error:
                if error.code not in pass_on:
                    raise
                first = first or error
        if (
            first is not None
            and first.code is ErrorCode.UNKNOWN_INSTANCE
            and owner_of(instance_id) not in order
        ):
            return await self._ask_for_adoption(frame, order, deadline)
        raise first or ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE)

    async def call_all(
        self, op: Op, *, tenant: str, meta: Mapping[str, object], body: bytes, timeout_s: float
    ) -> list[Frame]:
        """Ask every supervisor at once and return the replies that came in time."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        frame = Frame(op, 0, "", {**meta, "tenant": tenant}, body)
        members = await self._members(deadline)
        answers = await asyncio.gather(
            *(self._once(member, frame, deadline) for _, member in sorted(members.items())),
            return_exceptions=True,
        )
        replies = [answer for answer in answers if isinstance(answer, Frame) and answer.op is Op.REPLY]
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, ServiceError):
                raise answer
            if not replies and isinstance(answer, ServiceError):
                raise answer
            if not replies and isinstance(answer, Frame):
                reply_or_raise(answer)
        return replies

    async def close(self) -> None:
        """Close all connections and stop refreshing the fleet."""
        await self._connections.close()
        await self._discovery.close()

    async def _ask_for_adoption(self, frame: Frame, asked: Sequence[str], deadline: float) -> Frame:
        """Have another supervisor rebuild an instance whose owner is dead, from its record.

        Supervisors that joined in the meantime are asked first, since one of them may have it.
        """
        members = await self._discovery.refresh()
        for name in members:
            if name not in asked:
                try:
                    return reply_or_raise(await self._send(name, frame, deadline, wait=False))
                except ServiceError as error:
                    if error.code is not ErrorCode.UNKNOWN_INSTANCE:
                        raise
        successor = next((name for name in rank(frame.instance_id, members)), asked[0])
        wanted = replace(frame, meta={**frame.meta, "adopt": True})
        return reply_or_raise(await self._send(successor, wanted, deadline, wait=True))

    def _order(self, frame: Frame, members: Mapping[str, Member]) -> Sequence[str]:
        """Return the supervisors to ask, the most likely owner first."""
        owner = owner_of(frame.instance_id)
        if owner is not None and owner in members:
            return [owner]
        if frame.instance_id:
            return rank(frame.instance_id, members)
        key = frame.meta.get("key")
        if key is not None:
            # A create that is sent again must reach the supervisor that remembers its key.
            return rank(f"{frame.meta['tenant']}\0{key}", members)
        self._turn += 1
        return least_loaded(self._connections.load, members, self._turn)

    async def _candidates(self, frame: Frame, deadline: float) -> Mapping[str, Member]:
        """Return the fleet, refreshed when the id names a supervisor that is not known yet."""
        members = await self._members(deadline)
        owner = owner_of(frame.instance_id)
        if owner is not None and owner not in members:
            members = await self._discovery.refresh() or members
        return members

    async def _members(self, deadline: float) -> Mapping[str, Member]:
        """Return a fleet of at least one supervisor, waiting for the first until the deadline."""
        members = await self._discovery.members()
        while not members:
            if asyncio.get_running_loop().time() + MOVED_PAUSE_S >= deadline:
                raise ServiceError(
                    ErrorCode.SUPERVISOR_UNAVAILABLE, "the fleet has no supervisor", retry_after_s=1.0
                )
            await asyncio.sleep(MOVED_PAUSE_S)
            members = await self._discovery.refresh()
        return members

    async def _send(self, name: str, frame: Frame, deadline: float, *, wait: bool) -> Frame:
        """Send to a supervisor; with ``wait``, look it up again until the frame could be sent."""
        members = await self._discovery.members()
        while True:
            member = members.get(name)
            if member is None:
                detail = f"supervisor {name} has left the fleet"
                raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, retry_after_s=1.0)
            try:
                return await self._once(member, frame, deadline)
            except ServiceError as error:
                late = asyncio.get_running_loop().time() + MOVED_PAUSE_S >= deadline
                if error.code is not ErrorCode.SUPERVISOR_UNAVAILABLE or late or not wait:
                    raise
            await asyncio.sleep(MOVED_PAUSE_S)
            members = await self._discovery.refresh()

    async def _once(self, member: Member, frame: Frame, deadline: float) -> Frame:
        load = self._connections.load
        load[member.name] = load.get(member.name, 0) + 1
        try:
            left_s = deadline - asyncio.get_running_loop().time()
            return await self._connections.to(member).request(frame, left_s)
        finally:
            load[member.name] -= 1
