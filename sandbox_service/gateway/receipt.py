"""The receipt of request bodies: each within a size and a time, all of them within a number of bytes.

A body counts from before it is read until its request is answered, since all of it is in memory for so long:
with its announced length, or as it comes where none is announced. Over the bound of its tenant, or of all,
a request is refused before more of it is read; clients come back after Retry-After.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import CapacityError, ServiceError

if TYPE_CHECKING:
    from starlette.types import Receive

    from .exchange import Exchange


_RETRY_S = 1.0
_MIB = 1024 * 1024
_LONGEST_NUMBER = 18
"""Digits of a length that is looked at; more is too large whatever they say."""


class ClientGone(Exception):  # noqa: N818 - nothing failed; nobody is left to answer
    """The client went away before its request was complete."""


class BodyReceipt:
    """The bodies that one gateway replica holds."""

    def __init__(
        self, limit: int, timeout_s: float, most: int, most_of_one: int, *, fronted: bool = True
    ) -> None:
        """``fronted`` says that a proxy ends clients that say nothing."""
        self._fronted = fronted
        self._limit = limit
        self._timeout_s = timeout_s
        self._most = most
        self._most_of_one = most_of_one
        self._held: Counter[str] = Counter()
        self._all = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of all bodies that are received or worked on."""
        return self._all

    async def read(self, exchange: Exchange, receive: Receive) -> bytes:
        """The whole body, which counts until ``forget``.

        Raises ServiceError(BODY_TOO_LARGE) before a byte over the limit is kept, CapacityError(QUEUE_FULL)
        over the bound of the tenant or of all, and ServiceError(MALFORMED_HTTP) when it takes too long.
        """
        announced = exchange.headers.get(b"content-length", b"")
        if announced.isdigit():
            if len(announced) > _LONGEST_NUMBER or int(announced) > self._limit:
                raise self._too_large()
            self._count(exchange, int(announced))
        first = b""
        if self._fronted:
            # Silence before the first byte ends by the front's own timeout; a clock for each of the small
            # bodies, which come in one piece, would cost more than their receipt.
            first, more = await _chunk(receive)
            self._check(exchange, len(first))
            if not more:
                return first
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._rest(exchange, receive, first)
        except TimeoutError:
            exchange.hang_up = True
            detail = f"the body did not arrive within {self._timeout_s:g} s (server.body_timeout_s)"
            raise ServiceError(ErrorCode.MALFORMED_HTTP, detail) from None

    def forget(self, exchange: Exchange) -> None:
        """The request was answered. Idempotent."""
        size, exchange.body_bytes = exchange.body_bytes, 0
        if size:
            self._all -= size
            self._held[exchange.tenant] -= size
            if not self._held[exchange.tenant]:
                del self._held[exchange.tenant]

    async def _rest(self, exchange: Exchange, receive: Receive, first: bytes) -> bytes:
        chunks = [first]
        size = len(first)
        more = True
        while more:
            chunk, more = await _chunk(receive)
            size += len(chunk)
            self._check(exchange, size)
            chunks.append(chunk)
        return b"".join(chunks)

    def _check(self, exchange: Exchange, size: int) -> None:
        if size > self._limit:
            exchange.hang_up = True
            raise self._too_large()
        if size > exchange.body_bytes:
            self._count(exchange, size - exchange.body_bytes)

    def _count(self, exchange: Exchange, size: int) -> None:
        tenant = exchange.tenant
        if self._held[tenant] + size > self._most_of_one:
            exchange.hang_up = True
            raise self._no_room("the tenant's", self._most_of_one, "quota.bodies_mib")
        if self._all + size > self._most:
            exchange.hang_up = True
            raise self._no_room("all", self._most, "server.bodies_mib")
        self._held[tenant] += size
        self._all += size
        exchange.body_bytes += size

    def _no_room(self, whose: str, most: int, setting: str) -> CapacityError:
        detail = (
            f"{whose} request bodies that are being worked on have {most // _MIB} MiB together ({setting})"
        )
        return CapacityError(detail, _RETRY_S)

    def _too_large(self) -> ServiceError:
        return ServiceError(ErrorCode.BODY_TOO_LARGE, f"a request body may have {self._limit} bytes")


async def _chunk(receive: Receive) -> tuple[bytes, bool]:
    """The next piece, and whether there are more."""
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message.get("body", b""), message.get("more_body", False)
