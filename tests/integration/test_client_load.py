"""Four thousand episodes at once through one client: none is lost, and the service never sees a crowd."""

import asyncio

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from sandbox_client import AsyncSandboxClient, ClientLimits, StepBatcher
from sandbox_service.config import ServerConfig
from sandbox_service.gateway.app import build_app
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import make_registry
from tests.harness.http_server import serving

EPISODES = 4000
LIMITS = ClientLimits(in_flight=32, creating=16)


class Crowd:
    """Counts the requests that are in an application at once, and the connections they come by."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.now = 0
        self.most = 0
        self.total = 0
        self.peers: set[tuple[str, int]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.now += 1
        self.total += 1
        self.most = max(self.most, self.now)
        self.peers.add(tuple(scope["client"]))
        try:
            await self._app(scope, receive, send)
        finally:
            self.now -= 1


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
async def test_thousands_of_episodes_at_once_all_come_through(batched: bool) -> None:
    backend = EchoBackend()
    crowd = Crowd(build_app(ServerConfig(), make_registry(), backend))
    with serving(crowd) as url:
        async with AsyncSandboxClient(url, limits=LIMITS) as client:
            maker = StepBatcher(client) if batched else client

            async def play(name: int) -> str | None:
                async with maker.episode("echo", "echo-1") as episode:
                    result = await episode.step(f"episode {name}")
                    return result.observation.messages[0].content

            heard = await asyncio.gather(*(play(name) for name in range(EPISODES)))
    assert heard == [f"episode {name}" for name in range(EPISODES)]
    assert len(backend.episodes) == EPISODES
    assert all(episode.released for episode in backend.episodes.values())
    assert crowd.most <= LIMITS.connections
    assert len(crowd.peers) <= LIMITS.connections
    assert (crowd.total < 3 * EPISODES) is batched
