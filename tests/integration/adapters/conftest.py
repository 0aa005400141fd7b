"""A service in memory with echo's tasks, and its two clients."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from sandbox_client import AsyncSandboxClient, RetryPolicy
from sandbox_service.config import ServerConfig
from sandbox_service.gateway.app import build_app
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import make_registry
from tests.harness.http_server import serving

QUICK = RetryPolicy(base_s=0.0, attempts=1)


@pytest.fixture
def backend() -> EchoBackend:
    return EchoBackend()


@pytest.fixture
async def client(backend: EchoBackend) -> AsyncIterator[AsyncSandboxClient]:
    transport = httpx.ASGITransport(build_app(ServerConfig(), make_registry(), backend))
    async with AsyncSandboxClient("http://localhost", transport=transport, retry=QUICK) as made:
        yield made


@pytest.fixture
def address(backend: EchoBackend) -> Iterator[str]:
    with serving(build_app(ServerConfig(), make_registry(), backend)) as url:
        yield url
