"""The stand-alone gateway over a fake policy, with a client of its owner and those of agents."""

from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.fakes.agent_policy import AgentPolicy
from tests.harness.tiny_chat import tiny_chat
from trainer.model_gateway.stand_alone.service import serve_sessions
from trainer.model_gateway.stand_alone.settings import StandAloneSettings

ADMIN_KEY = "admin-secret"
CONTEXT = 400
HELLO = {"model": "anything", "messages": [{"role": "user", "content": "Hello"}]}


@dataclass
class Owner:
    """The owner of the agents, with its calls."""

    url: str
    policy: AgentPolicy
    http: httpx.AsyncClient
    """With the admin key."""

    async def open(self, **request):
        """A new session."""
        answer = await self.http.post("/sessions", json=request)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def call(self, session, *messages, key=None):
        """The answer to a chat completion in a session; to "Hello" by default."""
        body = {"model": "anything", "messages": list(messages) or HELLO["messages"]}
        headers = {"Authorization": f"Bearer {key or session['api_key']}"}
        return await self.http.post("/v1/chat/completions", json=body, headers=headers)

    async def read(self, session, part=""):
        """Return the document of a session's route."""
        answer = await self.http.get(f"/sessions/{session['id']}{part}")
        return answer.json() if answer.status_code == 200 else answer.status_code

    async def delete(self, session):
        """The recording of a session, which is sealed."""
        return (await self.http.delete(f"/sessions/{session['id']}")).json()


@asynccontextmanager
async def owner(*lines, **settings):
    """A gateway whose policy says the given lines."""
    chat = tiny_chat(tools="prompt", tool_format="hermes")
    policy = AgentPolicy(chat, list(lines) or ["Yes."])
    chosen = StandAloneSettings(model=Path(), engine="", admin_key=ADMIN_KEY, **settings)
    async with (
        serve_sessions(policy, chat, CONTEXT, chosen) as url,
        httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {ADMIN_KEY}"}) as http,
    ):
        yield Owner(url, policy, http)
