"""Send answers as fast as their clients read them, within a number of bytes that wait and a time for each.

A large answer counts until the client has read it, but for what the connection itself holds. One that finds
no room is not sent: a read is refused and may be repeated, while an operation that was executed has an
unknown outcome for its caller, which an idempotency key settles. The connection of a client that reads too
slowly is closed.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import OverCapacityError, ServiceError

from .body_reader import ClientDisconnected
from .exchange import ABANDONED
from .responses import send_response, start_response

if TYPE_CHECKING:
    from starlette.types import Message, Send

    from .exchange import HttpExchange
    from .held_bytes import HeldBytes
    from .responses import ErrorResponse, HttpResponse


LARGE = 64 * 1024
"""Bytes up to which an answer is not counted, since a connection holds as many itself."""
_PIECE = 128 * 1024


class AnswerSender:
    """Sends the answers of one gateway replica."""

    def __init__(self, held: HeldBytes, unit_bytes: int, unit_s: float) -> None:
        """Give an answer ``unit_s`` seconds for each ``unit_bytes``, begun ones included."""
        self._held = held
        self._unit_bytes = unit_bytes
        self._unit_s = unit_s

    def admit(self, exchange: HttpExchange, size: int) -> None:
        """Count a large answer until ``release``. Raises ServiceError over a bound."""
        if size <= LARGE:
            return
        try:
            self._held.take_bytes(exchange.tenant, size)
        except OverCapacityError as error:
            if not exchange.executed:
                raise
            detail = (
                f"{error.detail}, so the answer of the executed operation was not sent; retry with the same "
                "idempotency key (without one, a retry executes it again)"
            )
            raise ServiceError(ErrorCode.OUTCOME_UNKNOWN, detail, error.retry_after_s) from None
        exchange.answer_bytes += size

    def release(self, exchange: HttpExchange) -> None:
        """Stop counting what was admitted. Idempotent."""
        size, exchange.answer_bytes = exchange.answer_bytes, 0
        if size:
            self._held.give_back(exchange.tenant, size)

    async def send(self, send: Send, exchange: HttpExchange, response: HttpResponse) -> None:
        """Send a complete response. Raises ClientDisconnected if the client does not read it in time."""
        if len(response.body) <= LARGE or exchange.method == "HEAD":
            await send_response(send, exchange, response)
            return
        await start_response(send, exchange, response)
        await self.send_body(send, exchange, {"type": "http.response.body", "body": response.body})

    async def send_body(self, send: Send, exchange: HttpExchange, message: Message) -> None:
        """Send a body, or a part of one. Raises ClientDisconnected if the client does not read it in time."""
        body = message.get("body", b"")
        if len(body) <= LARGE:
            await send(message)
            return
        limit_s = self._unit_s * math.ceil(len(body) / self._unit_bytes)
        try:
            async with asyncio.timeout(limit_s):
                # Each piece waits until the client has read those before it. They are copies: a part of the
                # body in the connection's buffer would keep all of it in memory.
                for start in range(0, len(body), _PIECE):
                    piece = body[start : start + _PIECE]
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({**message, "body": b""})
        except TimeoutError:
            exchange.status = ABANDONED
            raise ClientDisconnected from None


class GrowingAnswer:
    """Counts the parts of an answer as they come, which wait in memory until the last of them is there."""

    def __init__(self, sender: AnswerSender, exchange: HttpExchange) -> None:
        self._sender = sender
        self._exchange = exchange
        self._uncounted = 0

    def admit(self, size: int) -> None:
        """Count a further part. Raises ServiceError if it has no room."""
        size += self._uncounted
        self._sender.admit(self._exchange, size)
        self._uncounted = size if size <= LARGE else 0


class AnswerEnded(Exception):  # noqa: N818 - the client has what there is to send
    """An answer of FastAPI's application is over: it was refused, or its client reads too slowly.

    The application has no handler for it: to its framework, an answer that was refused has begun.
    """

    def __init__(self, code: ErrorCode | None = None) -> None:
        super().__init__(code)
        self.code = code
        """The error, if it is one of the answer."""


class PassedAnswer:
    """Passes on the messages of an application's answer.

    One that announces its length counts as a whole before it begins, so that it is refused or sent
    completely. The route of any other answer counts what it holds in memory.
    """

    def __init__(
        self, sender: AnswerSender, exchange: HttpExchange, send: Send, error_response: ErrorResponse
    ) -> None:
        self.started = False
        """Something was sent."""
        self._sender = sender
        self._exchange = exchange
        self._send = send
        self._error_response = error_response

    async def send(self, message: Message) -> None:
        """Send a message of the answer. Raises AnswerEnded once there is nothing more to send."""
        if message["type"] == "http.response.start":
            await self._begin(message)
            return
        if self._exchange.method == "HEAD":
            message = {**message, "body": b""}
        try:
            await self._sender.send_body(self._send, self._exchange, message)
        except ClientDisconnected:
            raise AnswerEnded from None

    async def _begin(self, start: Message) -> None:
        exchange = self._exchange
        self.started = True
        try:
            self._sender.admit(exchange, 0 if exchange.method == "HEAD" else _length_of(start))
        except ServiceError as error:
            await send_response(self._send, exchange, self._error_response(exchange, error))
            raise AnswerEnded(error.code) from None
        exchange.status = start["status"]
        own = ((b"x-request-id", exchange.request_id.encode()), *exchange.last_headers)
        await self._send({**start, "headers": [*start["headers"], *own]})


def _length_of(start: Message) -> int:
    """Return the bytes that an answer announces; 0 for a stream."""
    return next((int(value) for name, value in start["headers"] if name == b"content-length"), 0)
