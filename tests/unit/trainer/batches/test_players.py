"""A worker's player: what its start leaves when it fails."""

import httpx
import pytest

from sandbox_client import AsyncSandboxClient
from tests.harness.tiny_chat import tiny_chat
from trainer.batches.players import start_player
from trainer.config import RunConfig
from trainer.errors import ConfigError
from trainer.rollout.episode import EpisodePlayer
from trainer.rollout.progress import ProgressMonitor
from trainer.rollout.scripted import ScriptedPolicy


class Connections(httpx.AsyncBaseTransport):
    """Knows whether it was closed."""

    closed = False

    async def aclose(self):
        self.closed = True


async def start(settings, folder, connections):
    client = AsyncSandboxClient("http://127.0.0.1:9", transport=connections)
    config, chat = RunConfig.model_validate(settings), tiny_chat()
    return await start_player(config, folder, client, ScriptedPolicy({}, chat), chat, ProgressMonitor())


async def test_a_player_that_cannot_start_leaves_no_client_open(tmp_path) -> None:
    connections = Connections()
    with pytest.raises(ConfigError, match="no_module cannot be imported"):
        await start({"agent": {"function": "no_module:play"}}, tmp_path, connections)
    assert connections.closed


async def test_a_player_that_has_started_has_its_client_open(tmp_path) -> None:
    connections = Connections()
    player = await start({}, tmp_path, connections)
    assert isinstance(player, EpisodePlayer)
    assert not connections.closed
    await player.client.aclose()
    assert connections.closed
