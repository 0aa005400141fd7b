"""A client's transport to a gateway in memory that holds the answers to steps."""

from __future__ import annotations

import asyncio

import httpx

from sandbox_service.config import ServerConfig
from sandbox_service.gateway.app import build_app
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import make_registry


class HeldSteps(httpx.ASGITransport):
    """Executes steps, and holds their answers until ``answered`` is set."""

    def __init__(self, backend: EchoBackend) -> None:
        super().__init__(build_app(ServerConfig(), make_registry(), backend))
        self.executed, self.answered = asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        if request.url.path.endswith("step"):
            self.executed.set()
            await self.answered.wait()
        return response
