"""Cut large frames into pieces, so that the frames of other requests pass between them.

A small frame behind one of megabytes would wait until the peer has read all of that. So the body of a large
frame is sent ahead in PIECE frames with the same request id; the frame itself follows with the rest of it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from sandbox_service.wire.frames import MAX_BODY, Frame, FrameError, Op

PIECE_BYTES = 128 * 1024
"""Bytes of a piece; bodies up to this size are sent whole."""
_MOST_INCOMPLETE = 4096
"""Frames of which a peer may have sent a part: as many as it may have requests in flight."""


@dataclass(slots=True, eq=False)
class _Outgoing:
    number: int
    body: bytes
    cut: int
    """Start of the part of the body that the last frame has."""
    last: bytes
    """The last frame, encoded."""
    start: int = 0
    sent: bool = False

    @property
    def left(self) -> int:
        return 0 if self.sent else len(self.body) - self.start

    def take(self) -> bytes:
        start = self.start
        if start == self.cut:
            self.sent = True
            return self.last
        self.start = start + PIECE_BYTES
        return Frame(Op.PIECE, self.number, body=self.body[start : self.start]).encode()


class OutgoingPieces:
    """Large frames on their way out, which take turns."""

    def __init__(self) -> None:
        self.bytes = 0
        """Bytes of bodies that were not taken."""
        self._frames: deque[_Outgoing] = deque()

    def __bool__(self) -> bool:
        return bool(self._frames)

    def add(self, frame: Frame, request_id: int | None) -> None:
        """Queue a frame. Raises FrameError if it is too large."""
        number = frame.request_id if request_id is None else request_id
        if len(frame.body) > MAX_BODY:
            raise FrameError(f"frame too large: body {len(frame.body)}")
        cut = (len(frame.body) - 1) // PIECE_BYTES * PIECE_BYTES
        # Encoded at once, so that the caller gets the error of a frame that cannot be sent.
        last = Frame(frame.op, number, frame.instance_id, frame.meta, frame.body[cut:]).encode()
        self._frames.append(_Outgoing(number, frame.body, cut, last))
        self.bytes += len(frame.body)

    def take(self) -> bytes:
        """Return the next piece, encoded; the frames take turns."""
        frame = self._frames.popleft()
        self.bytes -= frame.left
        piece = frame.take()
        self.bytes += frame.left
        if not frame.sent:
            self._frames.append(frame)
        return piece

    def withdraw(self, number: int) -> bool:
        """Forget the frame with this number; return false if there is none, or a part of it was taken."""
        for frame in self._frames:
            if frame.number == number and not frame.start:
                self._frames.remove(frame)
                self.bytes -= frame.left
                return True
        return False

    def clear(self) -> None:
        """Forget all frames."""
        self._frames.clear()
        self.bytes = 0


class IncomingPieces:
    """The pieces of frames that have not arrived whole."""

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._bodies: dict[int, list[bytes]] = {}
        self._sizes: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._bodies)

    def add(self, piece: Frame) -> None:
        """Keep a piece. Raises FrameError when the frame or the number of frames becomes too large."""
        number = piece.request_id
        size = self._sizes.get(number, 0) + len(piece.body)
        if size > self._max_body:
            raise FrameError(f"the pieces of a frame have {size} bytes")
        if number not in self._bodies and len(self._bodies) >= _MOST_INCOMPLETE:
            raise FrameError(f"more than {_MOST_INCOMPLETE} frames are incomplete")
        self._bodies.setdefault(number, []).append(piece.body)
        self._sizes[number] = size

    def complete(self, frame: Frame) -> Frame:
        """Return a frame with the pieces that were sent ahead of it. Raises FrameError as ``add`` does."""
        if frame.request_id not in self._bodies:
            return frame
        self.add(frame)
        del self._sizes[frame.request_id]
        body = b"".join(self._bodies.pop(frame.request_id))
        return Frame(frame.op, frame.request_id, frame.instance_id, frame.meta, body)
