"""Agents in the boxes of a served service: their model calls pass HAProxy, Ray Serve and the supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

from deploy.serve_app import run_service
from local_processes.ports import free_port
from sandbox_client import AsyncSandboxClient
from sandbox_contract.messages import Message
from sandbox_service.config import ServiceConfig
from tests.fakes.agent_policy import AgentPolicy
from tests.harness.box_players import box_player, play_in_box
from tests.harness.tiny_chat import tiny_chat
from trainer.types import StopReason

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    # Ray leaves event loops and sockets of its driver to the interpreter's end.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"
    ),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

AGENTS = 2


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service whose agents may reach every port of this machine."""
    folder = tmp_path_factory.mktemp("service")
    config = ServiceConfig.model_validate(
        {
            "server": {"port": free_port()},
            "sandbox": {"kind": "process", "state_dir": folder / "state"},
            "store": {"url": f"sqlite:///{folder}/trajectories.sqlite"},
            "pool": {"min_boxes": 0},
            "environments": {"enabled": ("code", "echo")},
            "agents": {"model_endpoints": ("127.0.0.1:*",)},
        }
    )
    with run_service(config) as service:
        yield service.url


async def test_agents_wait_for_their_model_in_open_streams_while_the_service_serves_others(url):
    policy = AgentPolicy(tiny_chat(), ["2070"], gate=asyncio.Event())
    code = "open('answer.txt', 'w').write(ask_streamed(sys.argv[1]))"
    async with AsyncSandboxClient(url) as client, box_player(client, policy, code) as player:
        playing = [asyncio.create_task(play_in_box(player, member)) for member in range(AGENTS)]
        await policy.asked_for(AGENTS)
        async with client.episode("echo", "echo-1") as other:
            await other.step(Message(role="assistant", content="hello"))
            assert (await other.evaluate()).score == 1.0
        assert not any(each.done() for each in playing)
        policy.gate.set()
        played = await asyncio.gather(*playing)
    for each in played:
        assert (each.stop, each.score, each.failure) == (StopReason.AGENT_ENDED, 1.0, None)
        (segment,) = each.segments
        assert sum(segment.loss_mask) == len(policy.sampled[0].token_ids)


async def test_an_agent_that_is_cancelled_in_a_model_call_ends_with_its_instance(url):
    policy = AgentPolicy(tiny_chat(), ["2070"], gate=asyncio.Event())
    async with (
        AsyncSandboxClient(url) as client,
        box_player(client, policy, "ask_streamed('?')") as player,
    ):
        playing = asyncio.create_task(play_in_box(player))
        await policy.asked_for(1)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        assert playing.cancelled()
        kept = (await client.instances()).instances
        assert {each.state for each in kept} == {"released"}
