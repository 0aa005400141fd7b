"""A connection that carries frames: the part that both ends share.

Frames sent in one iteration of the event loop leave in one system call. Unread output accumulates up to the
high-water mark only: then ``has_room`` turns false and senders wait in ``drained``. Large frames leave in
pieces, as fast as the peer reads them, and the small frames that are sent meanwhile pass between the pieces.
Only large frames wait for the pieces of others, which the mark bounds as well.

During the handshake, frames go to ``receive``; afterwards to the subclass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from sandbox_service.wire.frames import MAX_BODY, Decoder, Frame, FrameError, Op

from .address import keep_alive
from .drain_waiters import DrainWaiters
from .pieces import PIECE_BYTES, IncomingPieces, OutgoingPieces

HANDSHAKE_FRAMES = 4
"""Frames that may be unread during a handshake; a correct peer never sends more."""
_AHEAD = 2 * PIECE_BYTES
"""Bytes of pieces that may be unread before the next one waits: small frames are behind as many."""


class Channel(asyncio.Protocol):
    """A frame connection, in its handshake until ``open`` is called.

    ``in_pieces`` is for peers that are channels as well: large frames are sent in pieces. ``handshake_body``
    is the most bytes that a frame of the peer's may have before ``open``.
    """

    def __init__(
        self, write_buffer: int = 1024 * 1024, *, in_pieces: bool = True, handshake_body: int = MAX_BODY
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = False
        self.failure = "closed"
        """The reason why the connection ended, for log lines and error messages."""
        self._write_buffer = write_buffer
        self._decoder = Decoder(handshake_body)
        self._in_pieces = in_pieces
        self._outgoing = OutgoingPieces()
        self._incoming = IncomingPieces(MAX_BODY)
        self._transport: asyncio.Transport | None = None
        self._outbox: list[bytes] = []
        self._outbox_bytes = 0
        self._paused = False
        self._small_waiters = DrainWaiters(lambda: self.closed or self._writable)
        self._large_waiters = DrainWaiters(lambda: self.closed or self._takes_pieces)
        self._mailbox: list[Frame] | None = []
        self._reader: asyncio.Future[None] | None = None
        self._gone: asyncio.Future[None] = self.loop.create_future()

    @property
    def _writable(self) -> bool:
        """Whether small frames can be sent without waiting."""
        if self.closed or self._outbox_bytes > self._write_buffer:
            return False
        return not self._paused or self._written_bytes <= self._write_buffer

    @property
    def _takes_pieces(self) -> bool:
        """Whether large frames can be sent without waiting."""
        return self._writable and self._outgoing.bytes <= self._write_buffer

    def has_room(self, frame: Frame) -> bool:
        """Return whether a frame can be sent without waiting."""
        return self._takes_pieces if len(frame.body) > PIECE_BYTES else self._writable

    def send(self, frame: Frame, request_id: int | None = None) -> None:
        """Queue a frame, to be written at the end of this iteration. Raises FrameError if it is too large."""
        if len(frame.body) > PIECE_BYTES:
            self._send_large(frame, request_id)
            return
        data = frame.encode(request_id)
        if self.closed:
            return
        # Not at once: frames of the same iteration then share one system call.
        if not self._outbox:
            self.loop.call_soon(self._flush)
        self._outbox.append(data)
        self._outbox_bytes += len(data)

    def withdraw(self, request_id: int) -> None:
        """Forget a large frame that is queued under this number, unless a part of it was sent."""
        if self._outgoing and self._outgoing.withdraw(request_id):
            self._large_waiters.wake()

    async def drained(self, frame: Frame) -> None:
        """Wait until there is room for a frame, or the connection is gone."""
        await (self._large_waiters if len(frame.body) > PIECE_BYTES else self._small_waiters).wait()

    async def receive(self) -> Frame:
        """Return the next frame of the handshake. Raises ConnectionError when the connection ends first."""
        if self._mailbox is None:
            raise RuntimeError("the handshake is over")
        while not self._mailbox:
            if self.closed:
                raise ConnectionResetError(self.failure)
            self._reader = self.loop.create_future()
            await self._reader
        return self._mailbox.pop(0)

    async def exchange(self, frame: Frame) -> Frame:
        """Send a frame of the handshake and return the answer."""
        self.send(frame)
        return await self.receive()

    def open(self) -> None:
        """End the handshake. Raises FrameError on unread frames, ConnectionError when the peer is gone."""
        if self._mailbox:
            raise FrameError("the peer sent a request before the end of the handshake")
        if self.closed:
            raise ConnectionResetError(self.failure)
        self._mailbox = None
        self._decoder.max_body = MAX_BODY

    def close(self) -> None:
        """Send what is queued, then close the connection."""
        self._flush()
        if self._transport is not None:
            while self._outgoing:
                self._transport.write(self._outgoing.take())
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close the connection at once, for ``reason``."""
        self.failure = reason
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the connection is gone."""
        if self._transport is not None:
            await asyncio.shield(self._gone)

    def pause_reading(self) -> None:
        """Stop reading, so that the peer's output backs up."""
        if self._transport is not None and not self.closed:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Start to read again."""
        if self._transport is not None and not self.closed:
            self._transport.resume_reading()

    def frame_received(self, frame: Frame) -> None:
        """Handle a frame after the handshake, or an EVENT during it."""
        raise NotImplementedError

    def lost(self) -> None:
        """Handle the end of the connection."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        keep_alive(transport)
        most = min(_AHEAD, self._write_buffer) if self._in_pieces else self._write_buffer
        self._transport.set_write_buffer_limits(high=most)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._decoder.feed(data)
            for frame in frames:
                if frame.op is Op.PIECE and self._mailbox is None:
                    self._incoming.add(frame)
                elif self._mailbox is None or frame.op is Op.EVENT:
                    self.frame_received(self._incoming.complete(frame) if self._incoming else frame)
                else:
                    self._deliver(frame)
        except FrameError as error:
            self.abort(f"protocol error: {error}")

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._send_pieces()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if exc is not None:
            self.failure = f"{type(exc).__name__}: {exc}"
        self._outbox.clear()
        self._outgoing.clear()
        self._gone.set_result(None)
        # Wake everything that waits before the subclass is called: it may start a new connection at once.
        self._wake()
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
        self.lost()

    def _deliver(self, frame: Frame) -> None:
        if self._mailbox is None or len(self._mailbox) >= HANDSHAKE_FRAMES:
            raise FrameError(f"more than {HANDSHAKE_FRAMES} frames before the end of the handshake")
        self._mailbox.append(frame)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    @property
    def unsent_bytes(self) -> int:
        """Bytes that wait until the peer reads."""
        return self._outbox_bytes + self._outgoing.bytes + self._written_bytes

    @property
    def _written_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def _send_large(self, frame: Frame, request_id: int | None) -> None:
        if self._in_pieces:
            self._outgoing.add(frame, request_id)
            self.loop.call_soon(self._send_pieces)
            return
        head = frame.head(request_id)
        # The frames that are queued go first. Joined to its head, the body would be copied.
        self._flush()
        if self._transport is not None and not self.closed:
            self._transport.write(head)
            self._transport.write(frame.body)

    def _send_pieces(self) -> None:
        """Write pieces until the peer has to read first; ``resume_writing`` goes on."""
        while self._outgoing and not self._paused and not self.closed and self._transport is not None:
            self._transport.write(self._outgoing.take())
        self._large_waiters.wake()

    def _flush(self) -> None:
        if self._outbox and self._transport is not None:
            outbox, self._outbox, self._outbox_bytes = self._outbox, [], 0
            self._transport.write(outbox[0] if len(outbox) == 1 else b"".join(outbox))
            self._wake()

    def _wake(self) -> None:
        self._small_waiters.wake()
        self._large_waiters.wake()


if TYPE_CHECKING:
    Handshake = Callable[[Channel], Awaitable[None]]
