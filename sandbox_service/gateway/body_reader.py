"""Read request bodies, each within a size and a time, and all of them within a number of bytes.

A body counts from the start of its receipt until its request is answered, since it is in memory for all that
time: with its announced length, or chunk by chunk if none is announced. A request over the bound of its
tenant, or of all tenants, is rejected before more of it is read; clients retry after Retry-After.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import OverCapacityError, ServiceError

from .held_bytes import HeldBytes

if TYPE_CHECKING:
    from starlette.types import Receive

    from .exchange import HttpExchange


_LONGEST_NUMBER = 18
"""Digits of a Content-Length that are parsed; a longer one is too large whatever its digits are."""


class ClientDisconnected(Exception):  # noqa: N818 - nothing failed, but there is no client to answer
    """The client disconnected before its request was complete."""


class BodyReader:
    """Reads the bodies of one gateway replica and counts their bytes."""

    def __init__(
        self, limit: int, timeout_s: float, most: int, most_of_one: int, *, fronted: bool = True
    ) -> None:
        """Bound one body to ``limit`` bytes, all to ``most``, and those of one tenant to ``most_of_one``.

        ``fronted`` says that a proxy in front disconnects clients that send nothing.
        """
        self._fronted = fronted
        self._limit = limit
        self._timeout_s = timeout_s
        self._held = HeldBytes("request bodies that are being processed", most, most_of_one)

    @property
    def held_bytes(self) -> int:
        """Bytes of all bodies that are being received or processed."""
        return self._held.total_bytes

    async def read(self, exchange: HttpExchange, receive: Receive) -> bytes:
        """Return the whole body, which counts until ``release``.

        Raises ServiceError(BODY_TOO_LARGE) before a byte over the limit is kept, ServiceError(MALFORMED_HTTP)
        after the timeout, OverCapacityError(QUEUE_FULL) over the bound of the tenant or of all tenants, and
        ClientDisconnected.
        """
        announced = exchange.headers.get(b"content-length", b"")
        if announced.isdigit():
            if len(announced) > _LONGEST_NUMBER or int(announced) > self._limit:
                raise self._too_large()
            # The announced length counts before the body arrives, so that many slow bodies cannot exceed the
            # bound together.
            self._count(exchange, int(announced))
        first = b""
        if self._fronted:
            # The proxy's timeout covers the wait for the first byte. Small bodies arrive in one chunk, and a
            # timer for each of them would cost more than reading them.
            first, more = await _next_chunk(receive)
            self._check(exchange, len(first))
            if not more:
                return first
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._read_rest(exchange, receive, first)
        except TimeoutError:
            exchange.hang_up = True
            detail = f"the body did not arrive within {self._timeout_s:g} s (server.body_timeout_s)"
            raise ServiceError(ErrorCode.MALFORMED_HTTP, detail) from None

    def release(self, exchange: HttpExchange) -> None:
        """Stop counting the body of an answered request. Idempotent."""
        size, exchange.body_bytes = exchange.body_bytes, 0
        if size:
            self._held.give_back(exchange.tenant, size)

    async def _read_rest(self, exchange: HttpExchange, receive: Receive, first: bytes) -> bytes:
        chunks = [first]
        size = len(first)
        more = True
        while more:
            chunk, more = await _next_chunk(receive)
            size += len(chunk)
            self._check(exchange, size)
            chunks.append(chunk)
        return b"".join(chunks)

    def _check(self, exchange: HttpExchange, size: int) -> None:
        if size > self._limit:
            exchange.hang_up = True
            raise self._too_large()
        if size > exchange.body_bytes:
            self._count(exchange, size - exchange.body_bytes)

    def _count(self, exchange: HttpExchange, size: int) -> None:
        try:
            self._held.take_bytes(exchange.tenant, size)
        except OverCapacityError:
            exchange.hang_up = True
            raise
        exchange.body_bytes += size

    def _too_large(self) -> ServiceError:
        detail = f"the request body is larger than {self._limit} bytes (server.max_body_bytes)"
        return ServiceError(ErrorCode.BODY_TOO_LARGE, detail)


async def _next_chunk(receive: Receive) -> tuple[bytes, bool]:
    """Return the next chunk and whether more follow. Raises ClientDisconnected."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnected
    return message.get("body", b""), message.get("more_body", False)
