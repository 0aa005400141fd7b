"""The Ray actor of a supervisor: a thin shell that gives the core a process, a stream server and a name.

Ray starts it, finds it by name, watches it and starts it again when it died. No step passes through Ray:
the stream is served in this process's own event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import ray

from sandbox_service.errors import VersionMismatchError
from sandbox_service.stream.authentication import answerer_handshake, new_secret
from sandbox_service.stream.garbage import collect_rarely
from sandbox_service.stream.memory import keep_freed_memory
from sandbox_service.stream.options import MOST_IN_FLIGHT, ServerOptions
from sandbox_service.stream.server import StreamServer
from sandbox_service.telemetry import get_logger
from sandbox_service.wire.frames import Frame, Op

from .certificates import Certificates
from .options import SupervisorAddress, running_version, version_of

if TYPE_CHECKING:
    from .options import Core, CoreBuilder, SupervisorOptions


logger = get_logger(__name__)

_RETRY_S = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Pauses between attempts to start; the last one repeats for ever, since a Docker engine may come back."""


class SupervisorActor:
    """Starts the core as soon as Ray creates or restarts the actor."""

    def __init__(self, options: SupervisorOptions, build_core: CoreBuilder) -> None:
        self._options = options
        self._build_core = build_core
        self._core: Core | None = None
        self._server: StreamServer | None = None
        self._address: SupervisorAddress | None = None
        self._last_address: SupervisorAddress | None = None
        self._failure = "starting"
        self._fence: asyncio.Task[None] | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._starter = asyncio.get_running_loop().create_task(self._start_with_retries())

    async def address(self) -> SupervisorAddress | None:
        """Return its address; None while it is starting."""
        return self._address

    async def failure(self) -> str:
        """Return why it has no address yet."""
        return self._failure

    async def stats(self) -> bytes:
        """Return SupervisorStats as JSON; empty while it is starting."""
        if self._core is None:
            return b""
        answer = await self._core.handle(Frame(Op.STATS, 0, "", {"tenant": "", "request_id": "actor"}))
        return answer.body

    async def drain(self) -> None:
        """Refuse new instances and wait until running operations finish."""
        if self._core is not None:
            await self._core.drain()

    async def begin_drain(self, *, move: bool) -> None:
        """Refuse new instances until ``cancel_drain``; with ``move`` hand over those that can be rebuilt."""
        if self._core is not None:
            await self._core.begin_drain(move=move)

    async def cancel_drain(self) -> None:
        """Take new instances again."""
        if self._core is not None:
            await self._core.cancel_drain()

    async def stop(self) -> None:
        """Drain, close all connections and destroy every box; then the actor or its node can be killed.

        Calls at the same time return together, with the error of their close. A close that is under way is
        waited for. The actor counts as stopped also if it could not release all it had.
        """
        for task in (self._fence, self._starter):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        try:
            await self._close_core(drain=True)
        finally:
            self._failure = "stopped"
            if self._last_address is not None:
                self._address = replace(self._last_address, serving=False)

    async def _restart_when_fenced(self, core: Core) -> None:
        """Begin anew when another supervisor has taken over: what is left of this one's work is stale."""
        await core.wait_fenced()
        logger.error("supervisor_fenced", supervisor=self._options.name)
        self._failure = "another supervisor took over its instances; starting again"
        await self._close_core(drain=False)
        self._starter = asyncio.get_running_loop().create_task(self._start_with_retries())

    async def _start_with_retries(self) -> None:
        if version_of(self._options) != running_version():
            self._refuse_to_start()
            return
        attempt = 0
        while True:
            try:
                await self._start()
            except Exception as error:
                # Capture point: whatever keeps the core from starting is reported, and the start is retried.
                self._failure = f"{type(error).__name__}: {error}"
                logger.exception("supervisor_start_failed", supervisor=self._options.name)
                await self._close_core(drain=False)
            else:
                return
            await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])
            attempt += 1

    def _refuse_to_start(self) -> None:
        """Answer with an address that says the version, and touch neither boxes nor the store."""
        name, host = self._options.name, _node_address()
        self._failure = VersionMismatchError(name, host, running_version(), version_of(self._options)).detail
        logger.error("supervisor_refused", supervisor=name, reason=self._failure)
        node_id = ray.get_runtime_context().get_node_id()
        self._address = SupervisorAddress(name, node_id, "", host, None, "", os.getpid(), serving=False)

    async def _start(self) -> None:
        core = self._core = self._build_core(self._options)
        await core.start()
        collect_rarely()
        keep_freed_memory()
        secret = new_secret()
        server = self._server = StreamServer(
            core.handle,
            handshake=answerer_handshake(secret),
            options=ServerOptions(max_in_flight=MOST_IN_FLIGHT),
        )
        path = self._options.socket_path()
        await server.listen_unix(path)
        host = _node_address()
        port = await self._listen_tcp(server, host) if self._options.tcp else None
        node_id = ray.get_runtime_context().get_node_id()
        self._failure = ""
        self._fence = asyncio.get_running_loop().create_task(self._restart_when_fenced(core))
        self._address = SupervisorAddress(
            self._options.name, node_id, str(path), host, port, secret, pid=os.getpid()
        )

    async def _listen_tcp(self, server: StreamServer, host: str) -> int:
        if self._options.tls is None:
            return await server.listen_tcp(host)
        certificates = Certificates(self._options.tls, server=True)
        self._renewal = asyncio.get_running_loop().create_task(certificates.keep_renewed())
        return await server.listen_tcp(host, 0, certificates.context)

    async def _close_core(self, *, drain: bool) -> None:
        """Close the core; all callers share one close, which none of them cancels with itself."""
        # Once closed, another stop has the outcome of the one that closed it.
        if self._closing is None or (self._closing.done() and self._core is not None):
            self._closing = asyncio.get_running_loop().create_task(self._shut_down(drain=drain))
        await asyncio.shield(self._closing)

    async def _shut_down(self, *, drain: bool) -> None:
        """Release the core with its server; only the end of a core that drains raises."""
        try:
            await self._release_core(drain=drain)
        except Exception:
            # Capture point: the store may not take its last records. Those of a core that does not drain
            # describe instances of an earlier run, about which the next start writes them again, or
            # instances that another supervisor has. Logged here, since callers may be gone.
            logger.exception("supervisor_close_failed", supervisor=self._options.name)
            if drain:
                raise

    async def _release_core(self, *, drain: bool) -> None:
        self._last_address, self._address = self._address or self._last_address, None
        if self._renewal is not None:
            self._renewal.cancel()
        core, self._core = self._core, None
        server, self._server = self._server, None
        try:
            if core is not None and drain:
                await core.drain()
            if server is not None:
                await server.close()
        finally:
            if core is not None:
                await core.close()


def _node_address() -> str:
    host: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    return host
