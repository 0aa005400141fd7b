"""Send a gateway's frame to the supervisor that owns the instance; a directory of takeovers alone is kept.

An id that the service made names its supervisor. An id that a client chose belongs to the supervisor that
wins it by rendezvous hashing; since the fleet may have changed after the create, the others are asked once
when that one does not know it. A supervisor that reads in a shared store that another one has the instance
names it. While the owner is not reached, the others are asked to take the instance over from it, which the
store allows them once the owner's lease has run out; one that reads there that it has another owner by now
names that one instead, and one whose node cannot rebuild the instance leaves it to the next. A frame is sent
a second time only when it was never sent, or when the supervisor reports that it did not act on it.
Everything else is settled by the idempotency key.

A create that a supervisor refuses for want of the environment's image, or of room on its node's disk, goes to
the next one. New instances without a key then avoid that supervisor for a while. A create with a key or an id
keeps its order, in which its repetition finds the instance: the first supervisor reads in a shared store of
it, or refuses it again as long as its node lacks image or room. While the first one is not reached, a create
with a key goes to the next one, and the store allows it when the lease of the first has run out. One with an
id waits: if the first one returned meanwhile, two instances could have the id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError, is_of_node
from sandbox_service.stream.failures import error_frame, error_of, reply_or_raise
from sandbox_service.wire.frames import Frame, Op

from .connections import SupervisorConnections
from .heirs import Heirs
from .placement import least_loaded, owner_of, rank
from .refusing_nodes import RefusingNodes, stranded_error, sum_up
from .replies import code_of, is_left_to_others, is_refused_by_node, is_unknown, new_owner

if TYPE_CHECKING:
    from sandbox_service.stream.options import StreamOptions

    from .members import Discovery, Member


MOVED_PAUSE_S = 0.1
"""Pause between two refreshes while a supervisor does not answer."""
TAKEOVER_AFTER_S = 3.0
"""Time without an answer after which others are asked to take over; a restart takes about as long."""
SEARCH_S = 240.0
"""Longest wait for a supervisor: an operation may take hours, but its supervisor's absence may not."""
_HELD_PAUSE_S = 0.5
"""Pause between two such requests while the owner's lease holds."""
_MOVES = 4
"""Times that a frame follows an instance or a create to another supervisor."""

_NOT_MINE = frozenset({ErrorCode.UNKNOWN_INSTANCE})
_PASS_ON = {Op.CREATE: frozenset({ErrorCode.DRAINING})}
_NOT_DONE = _PASS_ON[Op.CREATE] | {ErrorCode.QUEUE_FULL, ErrorCode.SUPERVISOR_UNAVAILABLE}
"""Errors after which the next supervisor is asked; none of these supervisors has done anything. A create goes
on after a refusal of its node, too (``is_of_node``)."""


class Router:
    """The connections from one gateway to all supervisors."""

    def __init__(
        self,
        discovery: Discovery,
        options: StreamOptions | None = None,
        takeover_after_s: float = TAKEOVER_AFTER_S,
    ) -> None:
        self._discovery = discovery
        self._takeover_after_s = takeover_after_s
        self._held_pause_s = min(_HELD_PAUSE_S, takeover_after_s)
        self._connections = SupervisorConnections(options)
        self._heirs = Heirs()
        self._refusing = RefusingNodes()
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
        members = await self._candidates(frame, deadline)
        order = self._order(frame, members)
        free = op is Op.CREATE and not instance_id and meta.get("key") is None
        pass_on = _NOT_DONE if free else _PASS_ON.get(op, _NOT_MINE)
        # Wait only for the supervisor that the request depends on: the responsible one, or the last one left.
        awaited = order[-1] if free else order[0]
        refusals: dict[str, ServiceError] = {}
        for name in order:
            try:
                reply = await self._send(name, frame, deadline, wait=name == awaited)
                answer = reply_or_raise(await self._follow(frame, reply, deadline, name))
            except ServiceError as error:
                if error.code not in pass_on and not (op is Op.CREATE and is_of_node(error)):
                    raise
                refusals[name] = error
                self._note_refusal(frame, name, error)
            else:
                self._note_success(frame, name)
                return answer
        all_unknown = all(error.code is ErrorCode.UNKNOWN_INSTANCE for error in refusals.values())
        if all_unknown and owner_of(instance_id) not in order:
            return await self._ask_for_adoption(frame, order, deadline)
        raise sum_up(refusals, members)

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

    def excluded_supervisors(self) -> Mapping[str, str]:
        """Return the supervisors that get no requests, with the reason."""
        return {name: error.detail for name, error in self._discovery.excluded.items()}

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
        owner = owner_of(frame.instance_id) or ""
        reply = await self._ask_successors(frame, members or asked, deadline, owner)
        reply = reply or await self._wait_for_successor(frame, deadline, owner)
        return reply_or_raise(await self._follow(frame, reply, deadline, owner))

    async def _follow(self, frame: Frame, reply: Frame, deadline: float, first: str) -> Frame:
        """Return the answer of another supervisor, if ``reply`` says that it has the instance or the create.

        A create is executed by that one only if it is at work on it already; otherwise ``first``, which is
        responsible for the create, gets it again.
        """
        if frame.op is Op.CREATE:
            frame = replace(frame, meta={**frame.meta, "moved_from": first})
        refused: set[str] = set()
        for _ in range(_MOVES):
            owner = new_owner(reply)
            if owner is None:
                return reply
            if owner in refused:
                break
            members = await self._discovery.members()
            if owner and owner not in members:
                members = await self._discovery.refresh()
            if owner in members:
                reply = await self._send(owner, frame, deadline, wait=True)
                self._note_heir(frame, owner, reply)
            else:
                reply = await self._wait_for_successor(frame, deadline, owner)
            if owner != first and is_left_to_others(frame, reply):
                refused.add(owner)
                self._note_refusal(frame, owner, error_of(reply))
                reply = await self._send(first, frame, deadline, wait=True)
        if new_owner(reply) is None:
            return reply
        raise ServiceError(
            ErrorCode.SUPERVISOR_UNAVAILABLE, f"the {_subject(frame)} is being moved", retry_after_s=1.0
        )

    async def _wait_for_successor(self, frame: Frame, deadline: float, owner: str) -> Frame:
        """Wait until a supervisor may take the instance over from ``owner``; return its answer.

        An owner that comes back meanwhile, as one does that was restarted, answers itself.
        """
        until = _end_of_search(deadline)
        while True:
            members = await self._discovery.members()
            reply = await self._unless_away(owner, frame, deadline) if owner in members else None
            if reply is None or code_of(reply) is ErrorCode.SUPERVISOR_UNAVAILABLE:
                reply = await self._ask_successors(frame, members, deadline, owner)
            if reply is not None:
                return reply
            if asyncio.get_running_loop().time() + self._held_pause_s >= until:
                detail = "no supervisor can take the instance over yet"
                raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, retry_after_s=1.0)
            await asyncio.sleep(self._held_pause_s)
            await self._discovery.refresh()

    async def _ask_successors(
        self, frame: Frame, members: Iterable[str], deadline: float, owner: str
    ) -> Frame | None:
        """Ask the first supervisor that is reached and does not drain to take over from ``owner``.

        Returns its answer; None if there is none, or while the owner's lease holds. What a node refuses for
        lack of the image or of disk space goes on to the next one. If all refuse an instance whose owner has
        left the fleet, the answer is one error.
        """
        wanted = replace(frame, meta={**frame.meta, "adopt_from": owner})
        order = rank(_placed_by(frame), members)
        refusals: dict[str, ServiceError] = {}
        for name in order:
            reply = await self._unless_away(name, wanted, deadline) if name != owner else None
            if reply is None or code_of(reply) is ErrorCode.DRAINING:
                continue
            if is_refused_by_node(reply):
                refusals[name] = error_of(reply)
                self._note_refusal(frame, name, refusals[name])
                continue
            self._note_heir(wanted, name, reply)
            return reply if code_of(reply) is not ErrorCode.SUPERVISOR_UNAVAILABLE else None
        if _is_on_instance(frame) and order and list(refusals) == order:
            return await self._call_last_resort(wanted, refusals, deadline)
        return None

    async def _call_last_resort(
        self, wanted: Frame, refusals: Mapping[str, ServiceError], deadline: float
    ) -> Frame:
        """Return the answer of a call whose instance every node has refused to take over.

        The first of them records the instance as lost if its lease has run out; until then, it may be
        rebuilt by a node that comes back or gets what it lacks.
        """
        last = replace(wanted, meta={**wanted.meta, "last_resort": True})
        name = next(iter(refusals))
        reply = await self._unless_away(name, last, deadline)
        waits = reply is None or code_of(reply) in (ErrorCode.SUPERVISOR_UNAVAILABLE, ErrorCode.DRAINING)
        if reply is None or waits or is_refused_by_node(reply):
            return error_frame(wanted, stranded_error(refusals, await self._discovery.members()))
        self._note_heir(last, name, reply)
        return reply

    def _note_refusal(self, frame: Frame, name: str, error: ServiceError) -> None:
        """Remember a supervisor whose node lacks the image of a create, or room for it."""
        if frame.op is Op.CREATE and is_of_node(error):
            now = asyncio.get_running_loop().time()
            self._refusing.note(_environment_of(frame), name, error, now)

    def _note_success(self, frame: Frame, name: str) -> None:
        """Remember that an instance has ended, or that a supervisor has image and room."""
        if frame.op is Op.RELEASE:
            self._heirs.forget(frame.instance_id)
        elif frame.op is Op.CREATE:
            self._refusing.forget(_environment_of(frame), name)

    def _note_heir(self, frame: Frame, name: str, reply: Frame) -> None:
        """Remember who has an instance that went from one supervisor to another.

        The id of a new instance names its supervisor. One that reads a record need not have the instance.
        """
        if reply.op is Op.REPLY and frame.instance_id and not reply.meta.get("recorded"):
            self._heirs.note(frame.instance_id, name)

    async def _unless_away(self, name: str, frame: Frame, deadline: float) -> Frame | None:
        """Return a supervisor's answer, or None if the frame cannot be sent to it now."""
        try:
            return await self._send(name, frame, deadline, wait=False)
        except ServiceError as error:
            if error.code is not ErrorCode.SUPERVISOR_UNAVAILABLE:
                raise
            return None

    def _order(self, frame: Frame, members: Mapping[str, Member]) -> Sequence[str]:
        """Return the supervisors to ask, the most likely owner first."""
        owner = self._heirs.owner(frame.instance_id)
        if owner is not None and owner in members:
            return [owner]
        if placed_by := _placed_by(frame):
            return rank(placed_by, members)
        self._turn += 1
        order = least_loaded(self._connections.load, members, self._turn)
        now = asyncio.get_running_loop().time()
        return self._refusing.put_last(_environment_of(frame), order, now)

    async def _candidates(self, frame: Frame, deadline: float) -> Mapping[str, Member]:
        """Return the fleet, refreshed when the instance's supervisor is not known yet."""
        members = await self._members(deadline)
        owner = self._heirs.owner(frame.instance_id)
        if owner is not None and owner not in members:
            members = await self._discovery.refresh() or members
        return members

    async def _members(self, deadline: float) -> Mapping[str, Member]:
        """Return a fleet of at least one supervisor, waiting for the first until the deadline."""
        until = _end_of_search(deadline)
        members = await self._discovery.members()
        while not members:
            if asyncio.get_running_loop().time() + MOVED_PAUSE_S >= until:
                for error in self._discovery.excluded.values():
                    # A copy, since concurrent callers raise it, too.
                    raise copy(error)
                raise ServiceError(
                    ErrorCode.SUPERVISOR_UNAVAILABLE, "the fleet has no supervisor", retry_after_s=1.0
                )
            await asyncio.sleep(MOVED_PAUSE_S)
            members = await self._discovery.refresh()
        return members

    async def _send(self, name: str, frame: Frame, deadline: float, *, wait: bool) -> Frame:
        """Send to a supervisor; with ``wait``, look it up again until the frame could be sent.

        An instance whose supervisor stays away is taken over by another meanwhile, if there is one; so is a
        create with a key and without an id.
        """
        until = _end_of_search(deadline)
        loop = asyncio.get_running_loop()
        members = await self._discovery.members()
        ask_others_at = loop.time() + self._takeover_after_s
        while True:
            member = members.get(name)
            if member is None and wait and _is_on_instance(frame) and members:
                return await self._wait_for_successor(frame, deadline, name)
            if member is None:
                detail = f"supervisor {name} has left the fleet"
                raise ServiceError(ErrorCode.SUPERVISOR_UNAVAILABLE, detail, retry_after_s=1.0)
            try:
                return await self._once(member, frame, deadline)
            except ServiceError as error:
                late = loop.time() + MOVED_PAUSE_S >= until
                if error.code is not ErrorCode.SUPERVISOR_UNAVAILABLE or late or not wait:
                    raise
            if _may_be_taken_over(frame) and loop.time() >= ask_others_at:
                reply = await self._ask_successors(frame, members, deadline, name)
                if reply is not None and not is_unknown(reply):
                    return reply
                ask_others_at = loop.time() + self._held_pause_s
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


def _end_of_search(deadline: float) -> float:
    """Return the loop time until which a supervisor is waited for, from now on."""
    return min(deadline, asyncio.get_running_loop().time() + SEARCH_S)


def _is_on_instance(frame: Frame) -> bool:
    return bool(frame.instance_id) and frame.op is not Op.CREATE


def _placed_by(frame: Frame) -> str:
    """Return what decides which supervisor is responsible; empty for a new instance that any may create."""
    key = frame.meta.get("key")
    if frame.instance_id or key is None:
        return frame.instance_id
    # A create that is sent again must reach the supervisor that remembers its key.
    return f"{frame.meta['tenant']}\0{key}"


def _may_be_taken_over(frame: Frame) -> bool:
    # An id that the tenant chose could have two instances, if its supervisor returns during the create.
    return bool(_placed_by(frame)) and (_is_on_instance(frame) or not frame.instance_id)


def _environment_of(frame: Frame) -> str:
    """Return the environment of a create, which the gateway names."""
    return str(frame.meta.get("environment", ""))


def _subject(frame: Frame) -> str:
    return "create" if frame.op is Op.CREATE else "instance"
