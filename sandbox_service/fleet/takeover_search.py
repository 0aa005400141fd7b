"""Find the supervisor that takes over from one that is not reached.

While the owner of an instance is not reached, the others are asked to take the instance over from it, which
the store allows them once the owner's lease has run out. One that reads in the store that the instance has
another owner by now names that one instead, and one whose node cannot rebuild the instance leaves it to the
next. A create is claimed from its supervisor in the same way.

An answer of this module is not followed: it may name the supervisor that has the instance (``new_owner``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.failures import error_frame, error_of
from sandbox_service.stream.routing import LAST_RESORT, TAKE_OVER_FROM

from .placement import creator_of, rank
from .refusing_nodes import stranded_error
from .replies import code_of, is_refused_by_node
from .requests import is_on_instance, placed_by

if TYPE_CHECKING:
    from sandbox_service.wire.frames import Frame

    from .connections import SupervisorConnections
    from .members import Discovery
    from .new_owners import NewOwners
    from .refusing_nodes import RefusingNodes


TAKEOVER_AFTER_S = 3.0
"""Time without an answer after which others are asked to take over; a restart takes about as long."""
_HELD_PAUSE_S = 0.5
"""Pause between two such requests while the owner's lease holds."""
SEARCH_S = 240.0
"""Longest wait for a supervisor: an operation may take hours, but its supervisor's absence may not."""


class TakeoverSearch:
    """Asks supervisors to take over what belongs to one that a gateway does not reach."""

    def __init__(
        self,
        *,
        discovery: Discovery,
        connections: SupervisorConnections,
        new_owners: NewOwners,
        refusing: RefusingNodes,
        after_s: float,
    ) -> None:
        self._discovery = discovery
        self._connections = connections
        self._new_owners = new_owners
        self._refusing = refusing
        self.after_s = after_s
        """Time without an answer of the owner after which others are to be asked."""
        self.pause_s = min(_HELD_PAUSE_S, after_s)
        """Pause between two such requests while the owner's lease holds."""

    async def ask_fleet(self, frame: Frame, asked: Collection[str], deadline: float) -> Frame:
        """Return the answer of the supervisor that has an instance, or rebuilds it from its record.

        ``asked`` have answered that they do not know the instance. Supervisors that joined in the meantime
        are asked for it first, since one of them may have it; then all are asked to take it over.

        Raises ServiceError: SUPERVISOR_UNAVAILABLE if one that may have it is not reached, or none can take
        it over by the deadline.
        """
        members = await self._discovery.refresh()
        for name in members:
            if name not in asked:
                reply = await self._connections.request(name, frame, deadline)
                if code_of(reply) is not ErrorCode.UNKNOWN_INSTANCE:
                    return reply
        owner = creator_of(frame.instance_id) or ""
        answer = await self.ask_others(frame, members or asked, deadline, owner)
        return answer or await self.wait_for_answer(frame, deadline, owner)

    async def wait_for_answer(self, frame: Frame, deadline: float, owner: str) -> Frame:
        """Wait until a supervisor may take the instance over from ``owner``; return its answer.

        An owner that comes back meanwhile, as one does that was restarted, answers itself. Raises
        ServiceError(SUPERVISOR_UNAVAILABLE) at the deadline.
        """
        until = end_of_search(deadline)
        while True:
            members = await self._discovery.members()
            reply = None
            if owner in members:
                reply = await self._connections.request_if_reached(owner, frame, deadline)
            if reply is None or code_of(reply) is ErrorCode.SUPERVISOR_UNAVAILABLE:
                reply = await self.ask_others(frame, members, deadline, owner)
            if reply is not None:
                return reply
            if asyncio.get_running_loop().time() + self.pause_s >= until:
                detail = "no supervisor can take the instance over yet"
                raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, retry_after_s=1.0)
            await asyncio.sleep(self.pause_s)
            await self._discovery.refresh()

    async def ask_others(
        self, frame: Frame, members: Iterable[str], deadline: float, owner: str
    ) -> Frame | None:
        """Ask the first supervisor that is reached and does not drain to take over from ``owner``.

        Returns its answer; None if there is none, or while the owner's lease holds. What a node refuses for
        lack of the image or of disk space goes on to the next one. If all refuse an instance whose owner has
        left the fleet, the answer is one error.
        """
        wanted = replace(frame, meta={**frame.meta, TAKE_OVER_FROM: owner})
        order = rank(placed_by(frame), members)
        refusals: dict[str, ServiceError] = {}
        for name in order:
            if name == owner:
                continue
            reply = await self._connections.request_if_reached(name, wanted, deadline)
            if reply is None or code_of(reply) is ErrorCode.DRAINING:
                continue
            if is_refused_by_node(reply):
                refusals[name] = error_of(reply)
                now = asyncio.get_running_loop().time()
                self._refusing.note_refusal(frame, name, refusals[name], now)
                continue
            self._new_owners.note_answer(wanted, name, reply)
            return reply if code_of(reply) is not ErrorCode.SUPERVISOR_UNAVAILABLE else None
        if is_on_instance(frame) and order and list(refusals) == order:
            return await self._call_last_resort(wanted, refusals, deadline)
        return None

    async def _call_last_resort(
        self, wanted: Frame, refusals: Mapping[str, ServiceError], deadline: float
    ) -> Frame:
        """Return the answer of a call whose instance every node has refused to take over.

        The first of them records the instance as lost if its lease has run out; until then, it may be
        rebuilt by a node that comes back or gets what it lacks.
        """
        last = replace(wanted, meta={**wanted.meta, LAST_RESORT: True})
        name = next(iter(refusals))
        reply = await self._connections.request_if_reached(name, last, deadline)
        waits = reply is None or code_of(reply) in (ErrorCode.SUPERVISOR_UNAVAILABLE, ErrorCode.DRAINING)
        if reply is None or waits or is_refused_by_node(reply):
            return error_frame(wanted, stranded_error(refusals, await self._discovery.members()))
        self._new_owners.note_answer(last, name, reply)
        return reply


def end_of_search(deadline: float) -> float:
    """Return the loop time until which a supervisor is waited for, from now on."""
    return min(deadline, asyncio.get_running_loop().time() + SEARCH_S)
