"""A console that listens: a gateway over a supervisor, with a store in a file, and a training run."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass

import uvicorn

from sandbox_conformance.backend import SupervisorBackend
from sandbox_service.config import ServerConfig, StoreConfig
from sandbox_service.gateway.app import build_app
from sandbox_service.trajectories.store import open_store
from tests.harness.gateway import digest, make_registry
from tests.harness.run_folder import write_run
from tests.harness.supervised import Supervised, supervised

KEY = "ada-key"


@dataclass
class ServedConsole:
    """The address, the supervisor behind it, and the key of its tenant ada."""

    url: str
    service: Supervised
    key: str = KEY


@asynccontextmanager
async def served_console(folder):
    """The console of a service with API keys, in this event loop."""
    write_run(folder / "runs" / "mine")
    store = open_store(StoreConfig(url=f"sqlite:///{folder}/trajectories.sqlite"))
    config = ServerConfig(api_keys={digest(KEY): "ada"}, console_runs={"ada": str(folder / "runs")})
    try:
        async with supervised(store=store) as service:
            app = build_app(config, make_registry(), SupervisorBackend([service.core]))
            async with _listening(app) as url:
                yield ServedConsole(url, service)
    finally:
        await store.close()


@asynccontextmanager
async def _listening(app):
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))
    serving = asyncio.create_task(server.serve([listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
