"""The server end of one connection: runs the handler for each frame and sends its answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.telemetry import get_logger
from sandbox_service.wire.frames import Frame, FrameError, Op

from .channel import Channel
from .failures import error_frame

if TYPE_CHECKING:
    import asyncio

    from .options import ServerOptions

    Handler = Callable[[Frame], Awaitable[Frame]]


logger = get_logger(__name__)

_MOST_UNPROVEN = 4096
"""Bytes of a body of a peer that has not proved itself; the frames of a handshake have none."""


class Peer(Channel):
    """The requests of one connection, at most ``max_in_flight`` of them running; the rest is left unread.

    A request that has begun runs to its end when its connection breaks: the client will ask for its outcome
    when it reconnects.
    """

    def __init__(
        self,
        handler: Handler,
        options: ServerOptions,
        tasks: set[asyncio.Task[None]],
        on_made: Callable[[Peer], None],
        on_lost: Callable[[Peer], None],
    ) -> None:
        super().__init__(options.write_buffer, handshake_body=_MOST_UNPROVEN)
        self.draining = False
        """Answer new requests with DRAINING."""
        self._handler = handler
        self._options = options
        self._tasks = tasks
        self._in_flight = 0
        self._backlog: deque[Frame] = deque()
        self._on_made = on_made
        self._on_lost = on_lost
        self._stalled: asyncio.TimerHandle | None = None

    def frame_received(self, frame: Frame) -> None:
        if frame.op in (Op.EVENT, Op.REPLY, Op.ERROR, Op.HELLO):
            raise FrameError(f"a client must not send a {frame.op.name} frame")
        if self._in_flight < self._options.max_in_flight:
            self._start(frame)
            return
        # At most the frames of one read of the socket; nothing more is read until there is room.
        if not self._backlog:
            self.pause_reading()
        self._backlog.append(frame)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._on_made(self)

    def lost(self) -> None:
        self._cancel_stall()
        self._backlog.clear()
        self._on_lost(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(
            self._options.stall_timeout_s, self.abort, "the peer does not read its answers"
        )

    def resume_writing(self) -> None:
        self._cancel_stall()
        super().resume_writing()

    def _cancel_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _start(self, frame: Frame) -> None:
        self._in_flight += 1
        task = self.loop.create_task(self._answer(frame))
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._in_flight -= 1
        if self._backlog and not self.closed:
            self._start(self._backlog.popleft())
            if not self._backlog:
                self.resume_reading()

    async def _answer(self, frame: Frame) -> None:
        answer = await self._handle(frame)
        if not self.has_room(answer):
            await self.drained(answer)
        try:
            # With the request's own id, whatever the handler set: another id would match no request.
            self.send(answer, frame.request_id)
        except FrameError as error:
            self.send(
                error_frame(frame, ServiceError(ErrorCode.INTERNAL, f"the answer cannot be sent: {error}"))
            )

    async def _handle(self, frame: Frame) -> Frame:
        if self.draining:
            return error_frame(frame, ServiceError(ErrorCode.DRAINING, retry_after_s=1.0))
        try:
            return await self._handler(frame)
        except ServiceError as error:
            return error_frame(frame, error)
        except Exception:
            # A handler that fails must answer this request and leave the connection open for the others.
            logger.exception("request_handler_failed", op=frame.op.name)
            return error_frame(frame, ServiceError(ErrorCode.INTERNAL))
