import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from service_cli.bench.load import LoadConnection, LoadError, RefusedError, Target, connect, drive


@asynccontextmanager
async def serve(answer: bytes, *, parts: int = 1) -> AsyncIterator[asyncio.Server]:
    ended: list[asyncio.Task[None] | None] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended.append(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while answer:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                size = -(-len(answer) // parts)
                for at in range(0, len(answer), size):
                    writer.write(answer[at : at + size])
                    await writer.drain()
                    await asyncio.sleep(0)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield server
        await asyncio.gather(*(task for task in ended if task is not None))


def target_of(server: asyncio.Server, key: str | None = None) -> Target:
    return Target("127.0.0.1", server.sockets[0].getsockname()[1], key)


def answer(status: int = 200, body: bytes = b"{}") -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body


def times(count: int, path: str = "/a"):
    async def work(connection: LoadConnection) -> None:
        for _ in range(count):
            await connection.post(path, b"{}")

    return work


async def test_work_that_takes_too_long_is_an_error_of_the_measurement() -> None:
    async def forever(connection: LoadConnection) -> None:
        await connection.post("/a", b"{}")
        await asyncio.Event().wait()

    async with serve(answer()) as server:
        with pytest.raises(LoadError, match=r"not done within 0\.2 s"):
            await drive(target_of(server), [forever], most_s=0.2)


async def test_a_service_that_cannot_be_reached_is_an_error_of_the_measurement() -> None:
    async with serve(answer()) as server:
        target = target_of(server)
    with pytest.raises(LoadError, match=f"the connection to 127.0.0.1:{target.port} failed"):
        await drive(target, [times(1)])


async def test_an_error_of_the_system_within_the_work_is_an_error_of_the_measurement() -> None:
    async def broken(connection: LoadConnection) -> None:
        raise BrokenPipeError("broken pipe")

    async with serve(answer()) as server:
        with pytest.raises(LoadError, match="broken pipe"):
            await drive(target_of(server), [broken, times(1)])


@pytest.mark.parametrize("parts", [1, 7])
async def test_every_request_is_timed_by_path(parts: int) -> None:
    async with serve(answer(), parts=parts) as server:
        load = await drive(target_of(server), [times(3), times(5, "/b")])
    assert {path: len(values) for path, values in load.latencies_ms.items()} == {"/a": 3, "/b": 5}
    assert load.requests == 8
    assert load.per_s > 0
    assert load.own_cpu_ms >= 0


async def test_a_refusal_ends_the_measurement() -> None:
    async with serve(answer(429, b"full")) as server:
        with pytest.raises(LoadError, match=r"429.*full"):
            await drive(target_of(server), [times(1), times(1)])


async def test_refused_requests_are_counted_and_have_no_latency() -> None:
    async def undeterred(connection: LoadConnection) -> None:
        for _ in range(2):
            with suppress(RefusedError):
                await connection.post("/a", b"{}")

    async with serve(answer(429, b"full")) as server:
        load = await drive(target_of(server), [undeterred])
    assert (load.refused, load.requests, dict(load.latencies_ms)) == (2, 0, {})


async def test_a_connection_that_breaks_ends_the_measurement() -> None:
    async with serve(b"") as server:
        connection = await connect(target_of(server))
        with pytest.raises(LoadError, match="broke during a request"):
            await connection.send(target_of(server).request("/a", b"{}"))
        connection.close()


async def test_an_answer_that_it_does_not_understand_ends_the_measurement() -> None:
    async with serve(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") as server:
        connection = await connect(target_of(server))
        with pytest.raises(LoadError, match="without Content-Length"):
            await connection.send(target_of(server).request("/a", b"{}"))
        connection.close()


def test_a_target_is_read_from_an_address_and_sends_its_key() -> None:
    target = Target.of("http://10.0.0.1:8080", "secret")
    assert (target.host, target.port) == ("10.0.0.1", 8080)
    request = target.request("/v1/step", b"{}")
    assert b"authorization: Bearer secret\r\n" in request
    assert request.endswith(b"content-length: 2\r\n\r\n{}")
