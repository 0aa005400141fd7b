"""An ASGI application behind a real socket, served from a thread, for clients that need an address."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

_WAIT_S = 20.0


class _Server(uvicorn.Server):
    """Tells when it is up."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@contextlib.contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """The address at which the application answers while the block runs."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = _Server(uvicorn.Config(app, log_level="critical", access_log=False, ws="none", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        assert server.up.wait(_WAIT_S), "the server did not start"
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(_WAIT_S)
        listener.close()
