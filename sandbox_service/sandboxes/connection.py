"""The supervisor's connection to one runner: requests, events, and the report that the box is dead.

Built on the stream's multiplexed client. The first connection sets a random token in the runner, and later
ones send it, so that a broken connection can be renewed but no other process can take the runner over. A
runner that does not accept a new connection is dead, whatever the state of its box; that is reported once.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.stream.address import UnixAddress
from sandbox_service.stream.connection import MultiplexedClient, StreamOptions
from sandbox_service.stream.failures import reply_or_raise
from sandbox_service.wire.frames import Frame, Op

if TYPE_CHECKING:
    from sandbox_service.stream.channel import Channel


RECONNECT_S = 2.0
"""Longest time in which a runner accepts again after its connection broke."""
MAX_IN_FLIGHT = 1024


class _Socket(UnixAddress):
    """A runner's socket, opened by way of its folder: the kernel bounds the length of a socket's path."""

    __slots__ = ()

    async def dial(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        # /proc/self/fd/N stands for the folder, so that the path is short however deep the folder lies.
        folder, _, name = self.path.rpartition("/")
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            await UnixAddress(f"/proc/self/fd/{descriptor}/{name}").dial(protocol)
        finally:
            os.close(descriptor)


class _AnsweredSocket(_Socket):
    """The socket of a runner that has answered before: a refused connection now means that it is dead."""

    __slots__ = ()

    async def dial(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        try:
            await _Socket(self.path).dial(protocol)
        except (ConnectionRefusedError, FileNotFoundError) as error:
            raise ServiceError(ErrorCode.OUTCOME_UNKNOWN, "the runner's socket is closed") from error


class RunnerConnection:
    """Frames to and from one runner."""

    def __init__(
        self,
        socket: Path,
        runner_config: Mapping[str, object],
        start_timeout_s: float,
        on_event: Callable[[Frame], None],
        on_broken: Callable[[str], None],
    ) -> None:
        self._hello = Frame(
            Op.HELLO, 0, meta={"token": secrets.token_hex(16)}, body=json.dumps(runner_config).encode()
        )
        self._socket = str(socket)
        self._on_broken = on_broken
        self._reconnecting: asyncio.Task[None] | None = None
        self._closed = False
        options = StreamOptions(
            max_in_flight=MAX_IN_FLIGHT,
            # The runner takes whole frames; all that pass here are of one tenant, whose box it is.
            in_pieces=False,
            # The first handshake is answered when the zygote has imported its world.
            handshake_timeout_s=start_timeout_s,
            connect_timeout_s=RECONNECT_S,
            back_off_min_s=0.005,
            back_off_max_s=0.05,
            late=ErrorCode.STEP_TIMEOUT,
            unavailable=ErrorCode.OUTCOME_UNKNOWN,
        )
        self._client = MultiplexedClient(
            _Socket(self._socket),
            handshake=self._send_hello,
            on_event=on_event,
            on_lost=self._lost,
            options=options,
        )

    async def connect(self, timeout_s: float) -> None:
        """Connect to the runner, trying until its socket exists. Raises ServiceError(SANDBOX_FAILED)."""
        try:
            await self._client.connect(timeout_s)
        except ServiceError as error:
            detail = f"the runner is not ready: {error.detail}"
            raise ServiceError(ErrorCode.SANDBOX_FAILED, detail) from error
        # From now on a refused connection is the runner's death and not a slow start.
        self._client.address = _AnsweredSocket(self._socket)

    async def request(self, frame: Frame, timeout_s: float) -> Frame:
        """Send a frame and return its answer; the request id is set here."""
        if self._closed:
            raise ServiceError(ErrorCode.OUTCOME_UNKNOWN, "the box is gone")
        return await self._client.request(frame, timeout_s)

    def send(self, frame: Frame) -> None:
        """Send a frame that has no answer; dropped while there is no connection."""
        self._client.send(frame)

    async def close(self) -> None:
        """Close the connection. Requests in flight fail with OUTCOME_UNKNOWN; no death is reported."""
        self._closed = True
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reconnecting
        await self._client.close()

    async def _send_hello(self, channel: Channel) -> None:
        reply_or_raise(await channel.exchange(self._hello))

    def _lost(self, reason: str) -> None:
        if not self._closed and self._reconnecting is None:
            self._reconnecting = asyncio.create_task(self._reconnect(reason))

    async def _reconnect(self, reason: str) -> None:
        try:
            await self._client.connect(RECONNECT_S)
        except ServiceError as error:
            if not self._closed:
                self._closed = True
                self._on_broken(f"{reason}; {error.detail}")
        finally:
            self._reconnecting = None
