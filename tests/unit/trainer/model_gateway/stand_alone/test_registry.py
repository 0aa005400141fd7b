"""The list of sessions is read often, beside calls that are answered."""

import tracemalloc

from tests.fakes.agent_policy import AgentPolicy
from tests.harness.model_calls import call, limits, user
from tests.harness.tiny_chat import tiny_chat
from trainer.engines.generation import Finish, Generation, Sampling
from trainer.model_gateway.sessions import Sessions
from trainer.model_gateway.stand_alone.registry import SessionDefaults, SessionRegistry
from trainer.model_gateway.stand_alone.requests import OpenRequest

TOKENS = 50_000


async def test_the_list_of_sessions_makes_no_training_sequences() -> None:
    chat = tiny_chat()
    long = Generation(tuple(chat.encode("a")[:1]) * TOKENS, (-1.0,) * TOKENS, Finish.STOP, ())
    bounds = limits(context_tokens=2 * TOKENS, turn_tokens=TOKENS)
    registry = SessionRegistry(Sessions(AgentPolicy(chat, [long]), chat), SessionDefaults(bounds, Sampling()))
    session = registry.open(OpenRequest())
    await session.answer(call(user("Hello")))
    tracemalloc.start()
    try:
        (shown,) = registry.summaries()
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert shown["sampled_tokens"] == TOKENS
    assert most_bytes < TOKENS
    await session.close()
