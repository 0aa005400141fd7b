"""A model gateway that listens, and the clients that agents use."""

from contextlib import asynccontextmanager
from dataclasses import dataclass

import anthropic
import openai

from tests.fakes.agent_policy import AgentPolicy
from tests.harness.model_calls import KEY, limits
from tests.harness.tiny_chat import tiny_chat
from trainer.engines.generation import Sampling
from trainer.model_gateway.prompts import PromptPolicy
from trainer.model_gateway.server import ModelGateway, ServerSettings
from trainer.model_gateway.session import Session
from trainer.model_gateway.sessions import Sessions


@dataclass
class Served:
    """The gateway, its policy, and one open session."""

    gateway: ModelGateway
    policy: AgentPolicy
    session: Session

    def open(self, **limited) -> Session:
        """Another session."""
        return self.gateway.sessions.open(KEY, Sampling(), limits(**limited))

    def openai(self, session: Session | None = None, **options) -> openai.AsyncOpenAI:
        key = (session or self.session).api_key
        return openai.AsyncOpenAI(base_url=f"{self.gateway.url}/v1", api_key=key, **options)

    def anthropic(self, session: Session | None = None, **options) -> anthropic.AsyncAnthropic:
        key = (session or self.session).api_key
        return anthropic.AsyncAnthropic(base_url=self.gateway.url, api_key=key, **options)


@asynccontextmanager
async def served(*lines, settings=None, extra_routes=(), prompts="splice", chat=None, **limited):
    """A gateway whose policy says the given lines, with one session."""
    chat = chat or tiny_chat(tools="prompt", tool_format="hermes")
    policy = AgentPolicy(chat, list(lines) or ["Yes."])
    sessions = Sessions(policy, chat)
    gateway = ModelGateway(sessions, settings or ServerSettings(), extra_routes=extra_routes)
    await gateway.start()
    session = sessions.open(KEY, Sampling(), limits(**limited), prompts=PromptPolicy(prompts))
    try:
        yield Served(gateway, policy, session)
    finally:
        await gateway.close()
