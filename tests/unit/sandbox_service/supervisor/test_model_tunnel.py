"""A tunnel connects to its endpoint alone, holds little, and survives what either end does."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sandbox_service.supervisor.model_tunnel import ModelTunnel
from sandbox_service.wire import connections
from sandbox_service.wire.connections import MOST_CONNECTIONS, WINDOW
from sandbox_service.wire.frames import Frame, Op
from tests.harness.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Runner:
    """The runner of a box, as far as the tunnel uses it."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def received(self, number: int) -> bytes:
        return b"".join(f.body for f in self.frames if f.op is Op.CONNECTION_DATA and f.request_id == number)

    def credit(self, number: int) -> int:
        return sum(connections.credited(f) for f in self.frames if f.request_id == number)

    def closed(self, number: int) -> bool:
        return any(f.op is Op.CONNECTION_CLOSE and f.request_id == number for f in self.frames)


@asynccontextmanager
async def _tunnel(serve: Serve) -> AsyncIterator[tuple[ModelTunnel, Runner]]:
    served: list[asyncio.Task[None]] = []

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.ensure_future(serve(reader, writer)))
        await asyncio.wait(served[-1:])
        writer.transport.abort()

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    runner = Runner()
    async with server:
        async with ModelTunnel(f"{host}:{port}", "i", runner.frames.append) as tunnel:
            yield tunnel, runner
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)
        await asyncio.sleep(0)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while content := await reader.read(65536):
        writer.write(content)
        await writer.drain()
    writer.close()


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def test_bytes_go_to_the_endpoint_and_back_and_give_credit() -> None:
    async with _tunnel(_echo) as (tunnel, runner):
        tunnel.receive(connections.opened("i", 1))
        tunnel.receive(connections.data("i", 1, b"hello"))
        await until(lambda: runner.received(1) == b"hello")
        assert runner.credit(1) == 5
        tunnel.receive(connections.closed("i", 1))
        await until(lambda: runner.closed(1))
        assert (tunnel.made, tunnel.failed) == (1, 0)


async def test_many_small_frames_pass_together_and_leave_the_loop_to_others() -> None:
    async with _tunnel(_echo) as (tunnel, runner):
        for number in (1, 2):
            tunnel.receive(connections.opened("i", number))
            for _ in range(WINDOW):
                tunnel.receive(connections.data("i", number, b"x"))
        longest = 0
        while min(runner.credit(1), runner.credit(2)) < WINDOW:
            before = len(runner.frames)
            await asyncio.sleep(0)
            longest = max(longest, len(runner.frames) - before)
        credits = [frame for frame in runner.frames if frame.op is Op.CONNECTION_CREDIT]
        assert len(credits) == 2
        # What is sent in one turn of the loop: a credit and an answer of each connection.
        assert longest <= 4


async def test_connections_do_not_mix() -> None:
    async with _tunnel(_echo) as (tunnel, runner):
        for number in (1, 2):
            tunnel.receive(connections.opened("i", number))
            tunnel.receive(connections.data("i", number, str(number).encode()))
        await until(lambda: (runner.received(1), runner.received(2)) == (b"1", b"2"))


async def test_what_the_endpoint_sends_stops_at_the_window() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x" * (3 * WINDOW))
        await asyncio.Event().wait()

    async with _tunnel(talk) as (tunnel, runner):
        tunnel.receive(connections.opened("i", 1))
        await until(lambda: len(runner.received(1)) == WINDOW)
        tunnel.receive(connections.credit("i", 1, 10))
        await until(lambda: len(runner.received(1)) == WINDOW + 10)


async def test_a_runner_that_sends_without_credit_loses_the_connection() -> None:
    async with _tunnel(_silent) as (tunnel, runner):
        tunnel.receive(connections.opened("i", 1))
        for _ in range(3):
            tunnel.receive(connections.data("i", 1, b"x" * WINDOW))
        await until(lambda: runner.closed(1))


async def test_an_endpoint_that_is_down_closes_the_connection_and_is_counted() -> None:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    runner = Runner()
    async with ModelTunnel(f"127.0.0.1:{port}", "i", runner.frames.append) as tunnel:
        tunnel.receive(connections.opened("i", 1))
        await until(lambda: runner.closed(1))
        assert (tunnel.made, tunnel.failed) == (1, 1)


async def test_an_endpoint_that_dies_closes_its_connections() -> None:
    async def die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async with _tunnel(die) as (tunnel, runner):
        tunnel.receive(connections.opened("i", 1))
        tunnel.receive(connections.data("i", 1, b"x"))
        await until(lambda: runner.closed(1))


async def test_the_end_of_the_tunnel_closes_connections_to_an_endpoint_that_hangs() -> None:
    hung_up = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        hung_up.set()

    async with _tunnel(wait) as (tunnel, runner):
        tunnel.receive(connections.opened("i", 1))
        tunnel.receive(connections.data("i", 1, b"x"))
        await until(lambda: runner.credit(1) == 1)
        await tunnel.__aexit__()
        assert runner.closed(1)
        async with asyncio.timeout(20):
            await hung_up.wait()


async def test_more_connections_than_there_may_be_are_refused() -> None:
    async with _tunnel(_echo) as (tunnel, runner):
        for number in range(1, MOST_CONNECTIONS + 2):
            tunnel.receive(connections.opened("i", number))
        assert runner.closed(MOST_CONNECTIONS + 1)
        assert not runner.closed(1)
        assert tunnel.made == MOST_CONNECTIONS


async def test_frames_of_connections_that_there_are_not_do_nothing() -> None:
    async with _tunnel(_echo) as (tunnel, runner):
        for frame in (
            connections.data("i", 9, b"x"),
            connections.closed("i", 9),
            connections.credit("i", 9, 1),
        ):
            tunnel.receive(frame)
        await asyncio.sleep(0)
        assert runner.frames == []
