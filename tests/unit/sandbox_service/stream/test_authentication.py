from __future__ import annotations

import asyncio
import contextlib

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.address import UnixAddress
from sandbox_service.stream.authentication import answerer_handshake, asker_handshake, new_secret
from sandbox_service.stream.connection import MultiplexedClient
from sandbox_service.stream.server import StreamServer
from sandbox_service.wire.frames import Decoder, Frame, Op

STEP = Frame(Op.STEP, 1, "s.1", {}, b"x")


@contextlib.asynccontextmanager
async def serving(path, secret):
    handled: list[Frame] = []

    async def echo(frame: Frame) -> Frame:
        handled.append(frame)
        return frame.reply(frame.body)

    server = StreamServer(echo, handshake=answerer_handshake(secret))
    await server.listen_unix(path)
    try:
        yield handled
    finally:
        await server.close()


async def exchange(path, *frames: Frame) -> list[Frame]:
    """Send frames one by one, reading an answer after each, until the server hangs up."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    decoder, answers = Decoder(), []
    for frame in frames:
        writer.write(frame.encode())
        try:
            answers += decoder.feed(await reader.read(65536))
        except ConnectionError:
            break
    writer.close()
    return answers


async def test_two_ends_that_know_the_secret_talk(socket_path):
    secret = new_secret()
    async with serving(socket_path, secret):
        client = MultiplexedClient(UnixAddress(str(socket_path)), handshake=asker_handshake(secret))
        assert (await client.request(STEP, 5)).body == b"x"
        await client.close()


async def test_an_asker_refuses_an_answerer_without_the_secret(socket_path):
    async with serving(socket_path, "another") as handled:
        client = MultiplexedClient(UnixAddress(str(socket_path)), handshake=asker_handshake("secret"))
        with pytest.raises(ServiceError) as caught:
            await client.request(STEP, 5)
        assert caught.value.code is ErrorCode.SUPERVISOR_UNAVAILABLE
        assert handled == []
        await client.close()


async def test_an_answerer_refuses_an_asker_without_the_secret(socket_path):
    nonce = "00" * 32
    async with serving(socket_path, "secret") as handled:
        answers = await exchange(
            socket_path,
            Frame(Op.HELLO, 1, "", {"nonce": nonce}),
            Frame(Op.HELLO, 2, "", {"proof": "guess"}),
            STEP,
        )
        assert [answer.op for answer in answers] == [Op.REPLY, Op.ERROR]
        assert handled == []


@pytest.mark.parametrize("proof", ["\ud800", "\u00e9" * 64, 5, None, ["guess"]], ids=ascii)
async def test_a_proof_that_is_no_ascii_text_is_answered_and_cut(socket_path, proof):
    async with serving(socket_path, "secret") as handled:
        answers = await exchange(
            socket_path,
            Frame(Op.HELLO, 1, "", {"nonce": "00" * 32}),
            Frame(Op.HELLO, 2, "", {"proof": proof}),
            STEP,
        )
        assert [answer.op for answer in answers] == [Op.REPLY, Op.ERROR]
        assert handled == []


async def test_the_answerers_own_proof_is_no_proof_for_the_asker(socket_path):
    nonce = "00" * 32
    async with serving(socket_path, "secret") as handled:
        reader, writer = await asyncio.open_unix_connection(str(socket_path))
        writer.write(Frame(Op.HELLO, 1, "", {"nonce": nonce}).encode())
        (challenge,) = Decoder().feed(await reader.read(65536))
        writer.write(Frame(Op.HELLO, 2, "", {"proof": challenge.meta["proof"]}).encode())
        (verdict,) = Decoder().feed(await reader.read(65536))
        assert verdict.op is Op.ERROR
        assert handled == []
        writer.close()


async def test_a_recorded_exchange_is_worthless(socket_path):
    recorded: list[Frame] = []
    secret = "secret"
    async with serving(socket_path, secret) as handled:

        async def record(channel) -> None:
            send = channel.send

            def spy(frame: Frame) -> None:
                recorded.append(frame)
                send(frame)

            channel.send = spy
            await asker_handshake(secret)(channel)
            channel.send = send

        client = MultiplexedClient(UnixAddress(str(socket_path)), handshake=record)
        await client.request(STEP, 5)
        await client.close()
        assert len(recorded) == 2
        answers = await exchange(socket_path, *recorded, STEP)
        assert [answer.op for answer in answers] == [Op.REPLY, Op.ERROR]
        assert len(handled) == 1


@pytest.mark.parametrize(
    "first",
    [
        STEP,
        Frame(Op.HELLO, 1),
        Frame(Op.HELLO, 1, "", {"nonce": "zz"}),
        Frame(Op.HELLO, 1, "", {"nonce": "00" * 8}),
        Frame(Op.HELLO, 1, "", {"nonce": 5}),
        Frame(Op.HELLO, 1, "", {"nonce": "\ud800" * 64}),
        Frame(Op.HELLO, 1, "", {"nonce": "00" * 32}, bytes(10_000)),
    ],
    ids=["no hello", "no nonce", "no hex", "short nonce", "number", "half a surrogate pair", "large"],
)
async def test_anything_but_a_hello_with_a_nonce_is_cut(socket_path, first):
    async with serving(socket_path, "secret") as handled:
        assert await exchange(socket_path, first) == []
        assert handled == []


async def test_requests_sent_before_the_handshake_ended_are_never_handled(socket_path):
    async with serving(socket_path, "secret") as handled:
        reader, writer = await asyncio.open_unix_connection(str(socket_path))
        hello = Frame(Op.HELLO, 1, "", {"nonce": "00" * 32})
        writer.write(hello.encode() + STEP.encode() * 10)
        while await reader.read(65536):
            pass
        assert handled == []
        writer.close()
