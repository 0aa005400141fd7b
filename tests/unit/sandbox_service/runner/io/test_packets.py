"""Packets between a worker and a process that may be hostile."""

from __future__ import annotations

import array
import contextlib
import os
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_service.runner.io.packets import (
    receive_packet,
    receive_packet_with_descriptors,
    send_packet,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def soon() -> float:
    return time.monotonic() + 0.05


def test_an_object_a_blob_and_a_descriptor_arrive(ends: Pair) -> None:
    reading, writing = os.pipe()
    send_packet(ends[0], {"a": [1, "ü"]}, b"\0\xff", (writing,), deadline=time.monotonic() + 5)
    message, blob, descriptors = receive_packet_with_descriptors(ends[1])
    assert (message, blob) == ({"a": [1, "ü"]}, b"\0\xff")
    os.write(descriptors[0], b"through")
    assert os.read(reading, 10) == b"through"
    for descriptor in (reading, writing, *descriptors):
        os.close(descriptor)


def test_silence_is_a_timeout(ends: Pair) -> None:
    with pytest.raises(TimeoutError):
        receive_packet(ends[0], soon())


def test_half_a_packet_is_a_timeout(ends: Pair) -> None:
    ends[1].send(struct.pack(">II", 100, 0) + b"{")
    with pytest.raises(TimeoutError):
        receive_packet(ends[0], soon())


def test_a_peer_that_drips_meets_the_one_deadline(ends: Pair) -> None:
    ends[1].send(struct.pack(">II", 2, 0))
    deadline = time.monotonic() + 0.05
    with pytest.raises(TimeoutError):
        receive_packet(ends[0], deadline)
    with pytest.raises(TimeoutError):
        send_packet(ends[0], {}, deadline=deadline)


def test_a_peer_that_does_not_read_is_a_timeout(ends: Pair) -> None:
    with pytest.raises(TimeoutError):
        send_packet(ends[0], {}, bytes(1 << 22), deadline=soon())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\0",
        struct.pack(">II", 1 << 31, 0),
        struct.pack(">II", 0, 1 << 31),
        struct.pack(">II", 3, 0) + b"nul",
        struct.pack(">II", 2, 0) + b"\xff\xff",
        struct.pack(">II", 100_000, 0) + b"[" * 100_000,
        struct.pack(">II", 5000, 0) + b"9" * 5000,
        struct.pack(">II", 100, 0) + b"{}",
    ],
    ids=["nothing", "cut", "long", "long-blob", "no-json", "no-text", "deep", "digits", "cut-body"],
)
def test_an_end_or_nonsense_is_an_end(ends: Pair, data: bytes) -> None:
    ends[1].send(data)
    ends[1].close()
    with pytest.raises(EOFError):
        receive_packet(ends[0], time.monotonic() + 5)


def test_json_that_is_no_object_is_an_empty_object(ends: Pair) -> None:
    ends[1].send(struct.pack(">II", 4, 0) + b"[42]")
    assert receive_packet(ends[0]) == ({}, b"")


def test_sending_to_nobody_is_an_end(ends: Pair) -> None:
    ends[1].close()
    with pytest.raises(EOFError):
        send_packet(ends[0], {}, b"x" * 100)


HOSTILE = [
    struct.pack(">II", 2, 0) + b"{}",
    struct.pack(">II", 1 << 31, 0),
    struct.pack(">II", 3, 0) + b"nul",
    struct.pack(">II", 100, 0) + b"{}",
    b"\0\0",
]


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def send_hostile(end: socket.socket, data: bytes) -> None:
    """Send a packet with as many descriptors as the kernel takes at once."""
    with open(os.devnull) as null:  # noqa: PTH123
        rights = array.array("i", [null.fileno()] * 200).tobytes()
        end.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


@pytest.mark.parametrize("data", HOSTILE, ids=["whole", "long", "no-json", "cut", "cut-head"])
@pytest.mark.parametrize("takes_descriptors", [False, True])
def test_descriptors_of_a_hostile_peer_are_never_left_open(takes_descriptors: bool, data: bytes) -> None:
    before = open_descriptors()
    for _ in range(20):
        ours, theirs = socket.socketpair()
        with ours, theirs, contextlib.suppress(EOFError):
            send_hostile(theirs, data)
            theirs.shutdown(socket.SHUT_WR)
            if not takes_descriptors:
                receive_packet(ours)
                continue
            for descriptor in receive_packet_with_descriptors(ours)[2]:
                os.close(descriptor)
    assert open_descriptors() == before
