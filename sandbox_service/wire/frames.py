"""Frames: the one wire format between gateway, supervisor, runner and worker.

A frame is a 16-byte header, an instance id, a small JSON object for those who carry the frame (``meta``),
and a body that only the two ends read. The header holds, big-endian: body length (u32), meta length
(u16), instance id length (u8), operation (u8), request id (u64). Every length has a hard cap that is
checked before a byte of it is awaited. Standard library only: this file also runs inside the box.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

HEADER = struct.Struct(">IHBBQ")
MAX_BODY = 32 * 1024 * 1024
"""Bytes of a body; a longer one is a protocol error."""
MAX_META = 16 * 1024
"""Bytes of a meta object."""
TRACED = "traced"
"""Entry of meta with which a supervisor asks a runner for the times at which it worked."""
_LARGE = 64 * 1024


_write_json = json.JSONEncoder(separators=(",", ":")).encode
_read_json = json.JSONDecoder().raw_decode


class FrameError(Exception):
    """The peer sent something that is no frame; the connection cannot go on."""


class Op(IntEnum):
    """The operation that a frame requests, or the kind of its answer."""

    HELLO = 1
    CREATE = 2
    STEP = 3
    EVALUATE = 4
    RELEASE = 5
    FORK = 6
    FILE_READ = 7
    FILE_WRITE = 8
    FILE_LIST = 9
    STATS = 10
    PING = 11
    TRAJECTORY = 12
    INSTANCES = 13
    SHUTDOWN = 14
    RESET = 15
    DRAIN = 16
    PIECE = 17
    """A part of the body of the frame that follows under the same request id; between services only."""
    RUN_AGENT = 18
    SEARCH = 19
    """Find recorded episodes; the body is a query, the answer a page."""
    EVENT = 32
    """Sent by the runner unasked: ``meta["event"]`` says what happened to the instance."""
    CONNECTION_OPEN = 33
    """An agent connects to its model endpoint: see ``connections``."""
    CONNECTION_DATA = 34
    CONNECTION_CREDIT = 35
    CONNECTION_CLOSE = 36
    REPLY = 64
    ERROR = 65
    """The body is ``{"code": ..., "detail": ...}`` with an error code of the contract."""


_OPS = {int(op): op for op in Op}


@dataclass(slots=True)
class Frame:
    """One message; ``request_id`` ties an answer to its question.

    Nobody changes one. It is not frozen, since each hop of each step makes one and that doubles the cost.
    """

    op: Op
    request_id: int
    instance_id: str = ""
    meta: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""
    came_as: bytes | None = field(default=None, init=False, repr=False, compare=False)
    """The bytes that it was decoded from; who passes a frame on sends them again."""

    def encode(self, request_id: int | None = None) -> bytes:
        """Return the bytes, under another request id when one is given. Raises FrameError over a cap."""
        if self.came_as is not None and request_id is None:
            return self.came_as
        return b"".join((self.head(request_id), self.body))

    def head(self, request_id: int | None = None) -> bytes:
        """Return what ``encode`` puts before the body. Raises FrameError over a cap."""
        instance = self.instance_id.encode()
        meta = _write_json(self.meta).encode() if self.meta else b""
        if len(self.body) > MAX_BODY or len(meta) > MAX_META or len(instance) > 255:
            raise FrameError(f"frame too large: body {len(self.body)}, meta {len(meta)}, id {len(instance)}")
        number = self.request_id if request_id is None else request_id
        return HEADER.pack(len(self.body), len(meta), len(instance), self.op, number) + instance + meta

    def reply(self, body: bytes = b"", meta: dict[str, Any] | None = None) -> Frame:
        """Return the answer to this frame."""
        return Frame(Op.REPLY, self.request_id, self.instance_id, meta or {}, body)

    def error(self, code: str, detail: str) -> Frame:
        """Return the failure that answers this frame."""
        body = json.dumps({"code": code, "detail": detail}).encode()
        return Frame(Op.ERROR, self.request_id, self.instance_id, {}, body)


class Decoder:
    """Turns a stream of bytes into frames; holds at most one incomplete frame.

    ``keep`` leaves each frame its bytes, for who passes it on.
    """

    def __init__(self, max_body: int = MAX_BODY, *, keep: bool = False) -> None:
        self.max_body = max_body
        """Bytes of a body; a header that announces more is refused."""
        self._keep = keep
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes, give the frames that are now complete. Raises FrameError on a bad header."""
        held = self._buffer
        # Nearly always whole frames come, which need not pass through the buffer.
        source: bytes | bytearray = data
        if held:
            held += data
            source = held
        frames: list[Frame] = []
        start, size = 0, len(source)
        while size - start >= HEADER.size:
            body_length, meta_length, id_length, op, request_id = HEADER.unpack_from(source, start)
            if body_length > self.max_body or meta_length > MAX_META:
                raise FrameError(f"frame announces body {body_length}, meta {meta_length}")
            id_at = start + HEADER.size
            meta_at = id_at + id_length
            body_at = meta_at + meta_length
            end = body_at + body_length
            if size < end:
                break
            instance, meta = bytes(source[id_at:meta_at]), bytes(source[meta_at:body_at])
            frames.append(_frame(op, request_id, instance, meta, _copy(source, body_at, end)))
            if self._keep:
                frames[-1].came_as = _copy(source, start, end)
            start = end
        if source is held:
            del held[:start]
        else:
            held += data[start:]
        return frames


def _copy(source: bytes | bytearray, start: int, end: int) -> bytes:
    if end - start <= _LARGE or isinstance(source, bytes):
        return bytes(source[start:end])
    # A slice of a bytearray is a copy of its own, which bytes would copy again.
    with memoryview(source) as view, view[start:end] as part:
        return bytes(part)


def _frame(op: int, request_id: int, instance: bytes, meta: bytes, body: bytes) -> Frame:
    try:
        parsed: Any = {}
        if meta:
            text = meta.decode()
            parsed, end = _read_json(text)
            if end != len(text) or not isinstance(parsed, dict):
                raise FrameError("meta is not an object")
        return Frame(_OPS[op], request_id, instance.decode(), parsed, body)
    except (ValueError, KeyError, RecursionError) as error:
        raise FrameError(f"undecodable frame: {error}") from error
