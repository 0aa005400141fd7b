"""Frames on the wire: cut anywhere, passed on unchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox_service.wire.frames import Decoder, Frame, FrameError, Op

FRAMES = [
    Frame(Op.STEP, 7, "s.1", {"key": "k", "deadline_s": 2.5}, b"body"),
    Frame(Op.REPLY, 2**63, "", {}, b""),
    Frame(Op.EVENT, 0, "s.2", {"reason": "\u00fc"}, bytes(1000)),
]


@pytest.mark.parametrize("size", [1, 3, 17, 100, 5000])
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(size):
    data = b"".join(frame.encode() for frame in FRAMES)
    decoder = Decoder()
    out = [frame for at in range(0, len(data), size) for frame in decoder.feed(data[at : at + size])]
    assert out == FRAMES


def test_a_kept_frame_is_passed_on_in_the_very_bytes_in_which_it_came():
    spaced = Frame(Op.STEP, 7, "s.1", {"a": 1}).encode().replace(b'{"a":1}', b'{"a" :1}')
    came = spaced.replace(b"\x00\x07", b"\x00\x08", 1)
    (frame,) = Decoder(keep=True).feed(came)
    assert frame.meta == {"a": 1}
    assert frame.encode() == came


def test_a_changed_copy_of_a_kept_frame_has_bytes_of_its_own():
    (frame,) = Decoder(keep=True).feed(FRAMES[0].encode())
    assert Decoder().feed(replace(frame, request_id=9).encode()) == [replace(FRAMES[0], request_id=9)]
    assert Decoder().feed(frame.encode(9)) == [replace(FRAMES[0], request_id=9)]


@pytest.mark.parametrize("meta", [b"[1]", b"{} ", b"{", b"\xff"], ids=["list", "tail", "cut", "no-text"])
def test_what_is_no_object_is_no_meta(meta):
    head = Frame(Op.PING, 1).encode()
    data = head[:4] + len(meta).to_bytes(2, "big") + head[6:] + meta
    with pytest.raises(FrameError):
        Decoder().feed(data)


def test_an_operation_that_nobody_knows_is_refused():
    data = bytearray(Frame(Op.PING, 1).encode())
    data[7] = 200
    with pytest.raises(FrameError):
        Decoder().feed(bytes(data))
