"""Send a gateway's frame to the supervisor that owns the instance; a directory of takeovers alone is kept.

An id that the service made names its supervisor. An id that a client chose belongs to the supervisor that
wins it by rendezvous hashing; since the fleet may have changed after the create, the others are asked once
when that one does not know it. A supervisor that reads in a shared store that another one has the instance
names it. What belongs to a supervisor that is not reached is taken over by another one (``takeover_search``).
A frame is sent a second time only when it was never sent, or when the supervisor reports that it did not act
on it. Everything else is settled by the idempotency key.

A create that a supervisor refuses for want of the environment's image, or of room on its node's disk, goes to
the next one. New instances without a key then avoid that supervisor for a while. A create with a key or an id
keeps its order, in which its repetition finds the instance: the first supervisor reads in a shared store of
it, or refuses it again as long as its node lacks image or room. While the first one is not reached, a create
with a key goes to the next one, and the store allows it when the lease of the first has run out. One with an
id waits: if the first one returned meanwhile, two instances could have the id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError, is_of_node
from sandbox_service.stream.failures import error_of, reply_or_raise
from sandbox_service.stream.routing import MOVED_FROM
from sandbox_service.wire.frames import Frame, Op

from .absent_owners import AbsentOwners
from .connections import SupervisorConnections, left_error
from .new_owners import NewOwners
from .placement import creator_of, least_loaded, rank
from .refusing_nodes import RefusingNodes, sum_up
from .replies import FleetReplies, is_left_to_others, is_unknown, new_owner
from .requests import environment_of, is_on_instance, may_be_taken_over, placed_by, subject_of
from .takeover_search import TAKEOVER_AFTER_S, TakeoverSearch, end_of_search

if TYPE_CHECKING:
    from sandbox_service.stream.options import StreamOptions

    from .members import Discovery, Member


MOVED_PAUSE_S = 0.1
"""Pause between two refreshes while a supervisor does not answer."""
_MOVES = 4
"""Times that a frame follows an instance or a create to another supervisor."""

_NOT_MINE = frozenset({ErrorCode.UNKNOWN_INSTANCE})
_PASS_ON = {Op.CREATE: frozenset({ErrorCode.DRAINING})}
_NOT_DONE = _PASS_ON[Op.CREATE] | {ErrorCode.QUEUE_FULL, ErrorCode.SUPERVISOR_UNAVAILABLE}
"""Errors after which the next supervisor is asked; none of these supervisors has done anything. A create goes
on after a refusal of its node, too (``is_of_node``)."""


class Router:
    """Sends the requests of one gateway to the supervisors that have their instances."""

    def __init__(
        self,
        discovery: Discovery,
        options: StreamOptions | None = None,
        takeover_after_s: float = TAKEOVER_AFTER_S,
    ) -> None:
        self._discovery = discovery
        self._connections = SupervisorConnections(discovery, options)
        self._new_owners = NewOwners()
        self._absent = AbsentOwners()
        self._refusing = RefusingNodes()
        self._takeovers = TakeoverSearch(
            discovery=discovery,
            connections=self._connections,
            new_owners=self._new_owners,
            refusing=self._refusing,
            after_s=takeover_after_s,
        )
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
                send = self._request_or_wait if name == awaited else self._connections.request
                reply = await send(name, frame, deadline)
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
        creator = creator_of(instance_id)
        if all_unknown and creator not in order:
            reply = await self._takeovers.ask_fleet(frame, order, deadline)
            return reply_or_raise(await self._follow(frame, reply, deadline, creator or ""))
        raise sum_up(refusals, members)

    async def call_all(
        self, op: Op, *, tenant: str, meta: Mapping[str, object], body: bytes, timeout_s: float
    ) -> FleetReplies:
        """Ask every supervisor at once and return the replies that came in time.

        Raises ServiceError if none came.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        frame = Frame(op, 0, "", {**meta, "tenant": tenant}, body)
        members = await self._members(deadline)
        send = self._connections.request_member
        names = sorted(members)
        answers = await asyncio.gather(
            *(send(members[name], frame, deadline) for name in names), return_exceptions=True
        )
        replies = {
            name: answer
            for name, answer in zip(names, answers, strict=True)
            if isinstance(answer, Frame) and answer.op is Op.REPLY
        }
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, ServiceError):
                raise answer
            if not replies and isinstance(answer, ServiceError):
                raise answer
            if not replies and isinstance(answer, Frame):
                reply_or_raise(answer)
        missing = {*names, *self._discovery.excluded} - replies.keys()
        refusals = {
            name: error_of(answer)
            for name, answer in zip(names, answers, strict=True)
            if isinstance(answer, Frame) and answer.op is Op.ERROR
        }
        return FleetReplies(tuple(replies.values()), tuple(sorted(missing)), refusals)

    def excluded_supervisors(self) -> Mapping[str, str]:
        """Return the supervisors that get no requests, with the reason."""
        return {name: error.detail for name, error in self._discovery.excluded.items()}

    async def close(self) -> None:
        """Close all connections and stop refreshing the fleet."""
        await self._connections.close()
        await self._discovery.close()

    async def _follow(self, frame: Frame, reply: Frame, deadline: float, first: str) -> Frame:
        """Return the answer of another supervisor, if ``reply`` says that it has the instance or the create.

        A create is executed by that one only if it is at work on it already; otherwise ``first``, which is
        responsible for the create, gets it again.
        """
        if frame.op is Op.CREATE:
            frame = replace(frame, meta={**frame.meta, MOVED_FROM: first})
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
                reply = await self._request_or_wait(owner, frame, deadline)
                self._new_owners.note_answer(frame, owner, reply)
            else:
                reply = await self._takeovers.wait_for_answer(frame, deadline, owner)
            if owner != first and is_left_to_others(frame, reply):
                refused.add(owner)
                self._note_refusal(frame, owner, error_of(reply))
                reply = await self._request_or_wait(first, frame, deadline)
        if new_owner(reply) is None:
            return reply
        raise ServiceError(
            ErrorCode.SUPERVISOR_UNAVAILABLE, f"the {subject_of(frame)} is being moved", retry_after_s=1.0
        )

    def _note_refusal(self, frame: Frame, name: str, error: ServiceError) -> None:
        """Remember a supervisor whose node lacks the image of a create, or room for it."""
        self._refusing.note_refusal(frame, name, error, asyncio.get_running_loop().time())

    def _note_success(self, frame: Frame, name: str) -> None:
        """Remember that an instance has ended, or that a supervisor has image and room."""
        if frame.op is Op.RELEASE:
            self._new_owners.forget(frame.instance_id)
        elif frame.op is Op.CREATE:
            self._refusing.forget(environment_of(frame), name)

    def _order(self, frame: Frame, members: Mapping[str, Member]) -> Sequence[str]:
        """Return the supervisors to ask, the most likely owner first."""
        owner = self._new_owners.owner(frame.instance_id)
        if owner is not None and owner in members:
            return [owner]
        if key := placed_by(frame):
            return rank(key, members)
        self._turn += 1
        order = least_loaded(self._connections.load, members, self._turn)
        now = asyncio.get_running_loop().time()
        return self._refusing.put_last(environment_of(frame), order, now)

    async def _candidates(self, frame: Frame, deadline: float) -> Mapping[str, Member]:
        """Return the fleet, refreshed when the instance's supervisor is not known yet.

        One that has left for good may have many instances on record: they do not each wait for a refresh.
        """
        members = await self._members(deadline)
        owner = self._new_owners.owner(frame.instance_id)
        now = asyncio.get_running_loop().time()
        if owner is not None and owner not in members and self._absent.begin_refresh(owner, now):
            members = await self._discovery.refresh() or members
        return members

    async def _members(self, deadline: float) -> Mapping[str, Member]:
        """Return a fleet of at least one supervisor, waiting for the first until the deadline."""
        until = end_of_search(deadline)
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

    async def _request_or_wait(self, name: str, frame: Frame, deadline: float) -> Frame:
        """Return a supervisor's answer; look the supervisor up again until the frame could be sent.

        An instance whose supervisor stays away is taken over by another meanwhile, if there is one; so is a
        create with a key and without an id.
        """
        until = end_of_search(deadline)
        loop = asyncio.get_running_loop()
        members = await self._discovery.members()
        ask_others_at = loop.time() + self._takeovers.after_s
        while True:
            member = members.get(name)
            if member is None and is_on_instance(frame) and members:
                return await self._takeovers.wait_for_answer(frame, deadline, name)
            if member is None:
                raise left_error(name)
            try:
                return await self._connections.request_member(member, frame, deadline)
            except ServiceError as error:
                late = loop.time() + MOVED_PAUSE_S >= until
                if error.code is not ErrorCode.SUPERVISOR_UNAVAILABLE or late:
                    raise
            if may_be_taken_over(frame) and loop.time() >= ask_others_at:
                reply = await self._takeovers.ask_others(frame, members, deadline, name)
                if reply is not None and not is_unknown(reply):
                    return reply
                ask_others_at = loop.time() + self._takeovers.pause_s
            await asyncio.sleep(MOVED_PAUSE_S)
            members = await self._discovery.refresh()
