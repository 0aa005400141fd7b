"""Players whose agents run in the boxes of a service, and ask the model in a few lines of Python."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.harness.tiny_chat import tiny_chat
from trainer.agents.launchers import make_launcher
from trainer.agents.player import AgentPlayer
from trainer.config.agent import BoxAgent
from trainer.config.rollout import RolloutConfig, SamplingConfig, SandboxServiceConfig
from trainer.types import GroupSpec, TaskRef, Trajectory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_client import AsyncSandboxClient
    from trainer.engines.generation import Policy

TASK = TaskRef("code", "arithmetic_test", "arithmetic/test/easy/1", "easy")
"""compute 90 times 23"""
_AGENT = """
import json, os, sys, urllib.request
key = os.environ["OPENAI_API_KEY"]
def answering(text, **more):
    body = {"model": os.environ["AGENT_MODEL"], "messages": [{"role": "user", "content": text}], **more}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + key},
    )
    return urllib.request.urlopen(request, timeout=60)
def ask(text):
    with answering(text) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]
def ask_streamed(text):
    with answering(text, stream=True) as lines:
        events = [line[6:] for line in lines if line.startswith(b"data: ") and b"[DONE]" not in line]
    deltas = [json.loads(event)["choices"][0]["delta"] for event in events]
    return "".join(delta.get("content") or "" for delta in deltas)
"""


@asynccontextmanager
async def box_player(
    client: AsyncSandboxClient, policy: Policy, code: str, **settings: Any
) -> AsyncIterator[AgentPlayer]:
    """A started player whose agents run some lines of Python, which may ``ask`` and ``ask_streamed``."""
    agent = BoxAgent(command=("python3", "-c", _AGENT + code, "{task}"), **settings)
    launcher = make_launcher(agent, None, frozenset(), client, "code")
    player = AgentPlayer(
        agent, launcher, client, policy, tiny_chat(), RolloutConfig(), SandboxServiceConfig()
    )
    await player.start()
    try:
        yield player
    finally:
        await player.close()


async def play_in_box(player: AgentPlayer, member: int = 0) -> Trajectory:
    """An episode of the task."""
    spec = GroupSpec(index=0, task=TASK, seed=1, size=8, max_turns=8, params={"interface": "workspace"})
    return await player.play_episode(spec, member, SamplingConfig())
