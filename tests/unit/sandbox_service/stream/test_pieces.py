"""Large frames in pieces: they arrive whole, and small frames pass them."""

from __future__ import annotations

import asyncio
import random

import pytest

from sandbox_service.stream.address import UnixAddress
from sandbox_service.stream.connection import MultiplexedClient
from sandbox_service.stream.options import ServerOptions
from sandbox_service.stream.pieces import PIECE_BYTES, IncomingPieces, OutgoingPieces
from sandbox_service.stream.server import StreamServer
from sandbox_service.wire.frames import MAX_BODY, Decoder, Frame, FrameError, Op


def large(number: int, size: int) -> Frame:
    return Frame(Op.STEP, number, f"s.{number}", {"tenant": "t"}, random.Random(number).randbytes(size))


def sent(outgoing: OutgoingPieces) -> list[Frame]:
    decoder, frames = Decoder(), []
    while outgoing:
        frames += decoder.feed(outgoing.take())
    return frames


@pytest.mark.parametrize("size", [PIECE_BYTES + 1, 2 * PIECE_BYTES, 2 * PIECE_BYTES + 1, 3_000_000])
def test_a_frame_is_put_together_as_it_was(size):
    outgoing, incoming = OutgoingPieces(), IncomingPieces(MAX_BODY)
    outgoing.add(large(1, size), 5)
    *pieces, last = sent(outgoing)
    assert {piece.op for piece in pieces} == {Op.PIECE}
    for piece in pieces:
        incoming.add(piece)
    whole = incoming.complete(last)
    assert (whole.op, whole.request_id, whole.instance_id, whole.meta) == (Op.STEP, 5, "s.1", {"tenant": "t"})
    assert whole.body == large(1, size).body
    assert not incoming


def test_several_large_frames_take_turns():
    outgoing = OutgoingPieces()
    outgoing.add(large(1, 3 * PIECE_BYTES), None)
    outgoing.add(large(2, 2 * PIECE_BYTES), None)
    assert [frame.request_id for frame in sent(outgoing)] == [1, 2, 1, 2, 1]


def test_what_is_queued_is_counted_until_it_is_taken_or_withdrawn():
    outgoing = OutgoingPieces()
    outgoing.add(large(1, 3 * PIECE_BYTES), None)
    outgoing.add(large(2, 2 * PIECE_BYTES), 7)
    outgoing.take()
    assert outgoing.bytes == 4 * PIECE_BYTES
    # A part of the first was taken, so that the rest must follow.
    assert [outgoing.withdraw(number) for number in (1, 2, 7)] == [False, False, True]
    assert outgoing.bytes == 2 * PIECE_BYTES
    assert [frame.request_id for frame in sent(outgoing)] == [1, 1]
    assert outgoing.bytes == 0
    outgoing.add(large(1, 3 * PIECE_BYTES), None)
    outgoing.clear()
    assert outgoing.bytes == 0


def test_a_frame_over_the_limits_is_refused_before_a_piece_of_it_is_sent():
    outgoing = OutgoingPieces()
    with pytest.raises(FrameError):
        outgoing.add(Frame(Op.STEP, 1, body=bytes(MAX_BODY + 1)), None)
    with pytest.raises(FrameError):
        outgoing.add(Frame(Op.STEP, 1, meta={"long": "x" * 20_000}, body=bytes(PIECE_BYTES + 1)), None)
    assert not outgoing


def test_pieces_of_more_than_a_body_may_have_are_refused():
    incoming = IncomingPieces(max_body=10)
    incoming.add(Frame(Op.PIECE, 1, body=bytes(8)))
    with pytest.raises(FrameError):
        incoming.complete(Frame(Op.STEP, 1, body=bytes(3)))


def test_a_frame_without_pieces_is_passed_on():
    incoming = IncomingPieces(MAX_BODY)
    incoming.add(Frame(Op.PIECE, 1, body=b"x"))
    other = Frame(Op.STEP, 2, body=b"y")
    assert incoming.complete(other) is other


async def echo(frame: Frame) -> Frame:
    return frame.reply(frame.body)


async def test_large_requests_and_answers_arrive_whole_beside_small_ones(socket_path):
    server = StreamServer(echo)
    await server.listen_unix(socket_path)
    client = MultiplexedClient(UnixAddress(str(socket_path)))
    sizes = [10_000_000, 7, 200_000, 4_000_000, 0, PIECE_BYTES]
    bodies = [large(number, size).body for number, size in enumerate(sizes)]
    answers = await asyncio.gather(*(client.request(Frame(Op.STEP, 0, body=body), 30) for body in bodies))
    assert [answer.body for answer in answers] == bodies
    await client.close()
    await server.close()


async def test_a_small_request_passes_a_large_one_that_was_sent_before(socket_path):
    frames: list[Frame] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder = Decoder()
        while data := await reader.read(65536):
            frames.extend(decoder.feed(data))
            if any(frame.op is Op.STEP for frame in frames):
                passed.set()
        writer.close()
        await writer.wait_closed()
        ended.set()

    passed, ended = asyncio.Event(), asyncio.Event()
    listener = await asyncio.start_unix_server(note, str(socket_path))
    client = MultiplexedClient(UnixAddress(str(socket_path)))
    asked = [
        asyncio.create_task(client.request(frame, 30)) for frame in (large(0, 20_000_000), Frame(Op.PING, 0))
    ]
    await asyncio.wait_for(passed.wait(), 10)
    order = [frame.op for frame in frames]
    assert order.index(Op.PING) < 10
    assert order[-1] is Op.STEP
    await client.close()
    await asyncio.gather(*asked, return_exceptions=True)
    await ended.wait()
    listener.close()
    await listener.wait_closed()


async def test_an_answer_that_is_being_sent_when_the_server_closes_arrives_whole(socket_path):
    began = asyncio.Event()

    async def answer(frame: Frame) -> Frame:
        began.set()
        return frame.reply(frame.body)

    server = StreamServer(answer, options=ServerOptions(hang_up_timeout_s=120))
    await server.listen_unix(socket_path)
    client = MultiplexedClient(UnixAddress(str(socket_path)))
    asked = asyncio.create_task(client.request(large(0, 5_000_000), 150))
    await began.wait()
    await server.close(drain_s=120)
    assert (await asked).body == large(0, 5_000_000).body
    await client.close()


async def test_a_peer_that_stops_reading_a_large_answer_is_cut(socket_path):
    handled = asyncio.Event()

    async def much(frame: Frame) -> Frame:
        handled.set()
        return frame.reply(bytes(4_000_000))

    server = StreamServer(much, options=ServerOptions(stall_timeout_s=0.05))
    await server.listen_unix(socket_path)
    _, writer = await asyncio.open_unix_connection(str(socket_path))
    writer.transport.pause_reading()
    writer.write(Frame(Op.STEP, 1).encode())
    await handled.wait()
    (peer,) = server.peers
    await asyncio.wait_for(peer.wait_closed(), 5)
    writer.close()
    await server.close()


async def test_a_peer_that_does_not_read_its_last_answers_is_cut_when_the_server_closes(socket_path):
    handled = asyncio.Event()

    async def much(frame: Frame) -> Frame:
        handled.set()
        return frame.reply(bytes(4_000_000))

    server = StreamServer(much, options=ServerOptions(hang_up_timeout_s=0.05))
    await server.listen_unix(socket_path)
    _, writer = await asyncio.open_unix_connection(str(socket_path))
    writer.transport.pause_reading()
    writer.write(Frame(Op.STEP, 1).encode())
    await handled.wait()
    await server.close()
    assert server.connections == 0
    writer.close()
