"""A client that keeps one multiplexed connection to one address, whoever is at the other end.

Many requests run at once over one connection and are told apart by request id. Every request has a
deadline. A request that never left fails with the ``unavailable`` code and may go elsewhere; one that left
and lost its connection fails with OUTCOME_UNKNOWN and is settled by its idempotency key. The connection is
opened when somebody needs it, again after it broke, with growing, jittered pauses while nobody answers.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from sandbox_service.errors import ServiceError
from sandbox_service.wire.frames import Frame, FrameError, Op

from .link import Link
from .options import BackOff, StreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from .address import Address
    from .channel import Handshake

__all__ = ["MultiplexedClient", "StreamOptions"]


class MultiplexedClient:
    """Requests and answers over one connection that is renewed when it breaks.

    ``handshake`` talks on a fresh connection before any request does; a ServiceError that it raises is a
    refusal and goes to everybody who waits for the connection. ``on_event`` gets EVENT frames, ``on_lost``
    the reason when an open connection breaks.
    """

    def __init__(
        self,
        address: Address,
        *,
        handshake: Handshake | None = None,
        on_event: Callable[[Frame], None] | None = None,
        on_lost: Callable[[str], None] | None = None,
        options: StreamOptions | None = None,
    ) -> None:
        self.address = address
        self._options = options or StreamOptions()
        self._handshake = handshake
        self._on_event = on_event
        self._on_lost = on_lost
        self._link: Link | None = None
        self._leaving: set[Link] = set()
        self._slots = asyncio.Semaphore(self._options.max_in_flight)
        self._back_off = BackOff(self._options.back_off_min_s, self._options.back_off_max_s)
        self._arrivals: set[asyncio.Future[None]] = set()
        self._opener: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def connected(self) -> bool:
        """Whether a connection is open."""
        return self._link is not None

    async def connect(self, timeout_s: float) -> None:
        """Open the connection now, trying again until the deadline."""
        await self._arrival(asyncio.get_running_loop().time() + timeout_s)

    async def request(self, frame: Frame, timeout_s: float) -> Frame:
        """Send a frame and await its answer (Op.REPLY or Op.ERROR). The request id is set here."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        await self._slot(deadline)
        try:
            link = self._link
            if link is None or not link.writable:
                link = await self._writable_link(deadline)
            return await link.ask(frame, deadline, self._options.late)
        finally:
            self._slots.release()

    async def close(self) -> None:
        """Hang up. Requests in flight fail with OUTCOME_UNKNOWN, waiting ones as unavailable."""
        self._closed = True
        opener, self._opener = self._opener, None
        if opener is not None:
            opener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await opener
        links = {*self._leaving, *([self._link] if self._link is not None else [])}
        for link in links:
            link.abort("closed by us")
            await link.wait_closed()
        self._refuse(self._unavailable("the client is closed"))

    def _unavailable(self, detail: str) -> ServiceError:
        return ServiceError(self._options.unavailable, f"{self.address}: {detail}")

    async def _slot(self, deadline: float) -> None:
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise self._unavailable("too many requests in flight") from None

    async def _writable_link(self, deadline: float) -> Link:
        """An open connection that takes frames."""
        while True:
            link = self._link
            if link is None:
                patience = asyncio.get_running_loop().time() + self._options.connect_patience_s
                await self._arrival(min(deadline, patience))
            elif link.writable:
                return link
            else:
                try:
                    async with asyncio.timeout_at(deadline):
                        await link.drained()
                except TimeoutError:
                    raise self._unavailable("the peer does not read") from None

    async def _arrival(self, deadline: float) -> None:
        """Wait until a connection is open."""
        if self._closed:
            raise self._unavailable("the client is closed")
        if self._link is not None:
            return
        arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals.add(arrival)
        if self._opener is None:
            self._opener = asyncio.create_task(self._open_link(), name=f"open {self.address}")
        try:
            async with asyncio.timeout_at(deadline):
                await arrival
        except TimeoutError:
            raise self._unavailable(self._back_off.last_failure or "no connection in time") from None
        finally:
            self._arrivals.discard(arrival)

    async def _open_link(self) -> None:
        """Try until a connection is open, the peer refuses, or nobody waits any more."""
        try:
            while self._arrivals:
                await asyncio.sleep(self._back_off.pause())
                try:
                    self._link = await self._dial()
                except ServiceError as error:
                    self._back_off.failed(error.detail)
                    self._refuse(error)
                except (OSError, FrameError) as error:
                    self._back_off.failed(str(error) or type(error).__name__)
                else:
                    self._welcome()
                    return
        finally:
            self._opener = None
            self._refuse(self._unavailable(self._back_off.last_failure or "no connection"))

    async def _dial(self) -> Link:
        link = Link(self._event, self._link_lost, self._options.write_buffer)
        try:
            async with asyncio.timeout(self._options.handshake_timeout_s):
                await self.address.dial(lambda: link)
                if self._handshake is not None:
                    await self._handshake(link)
            link.open()
        except BaseException:
            link.abort("no connection was made")
            raise
        return link

    def _welcome(self) -> None:
        for arrival in self._arrivals:
            if not arrival.done():
                arrival.set_result(None)

    def _refuse(self, error: ServiceError) -> None:
        """Everybody who waits for a connection gets the error, each its own."""
        for arrival in self._arrivals:
            if not arrival.done():
                arrival.set_exception(ServiceError(error.code, error.detail, error.retry_after_s))
        self._arrivals.clear()

    def _event(self, link: Link, frame: Frame) -> None:
        if frame.op is Op.EVENT and frame.meta.get("event") == "closing":
            # The peer finishes what it has and takes nothing new; our next request needs a new connection.
            if link is self._link:
                self._link = None
                self._leaving.add(link)
        elif self._on_event is not None:
            self._on_event(frame)

    def _link_lost(self, link: Link) -> None:
        self._leaving.discard(link)
        if link is not self._link:
            return
        self._link = None
        if link.answered:
            self._back_off.succeeded()
        else:
            self._back_off.failed(link.failure)
        if self._on_lost is not None and not self._closed:
            self._on_lost(link.failure)
