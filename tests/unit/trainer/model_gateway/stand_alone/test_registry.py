"""The list of sessions is read often, beside calls that are answered; idle sessions end one after another."""

import asyncio
import tracemalloc

from tests.fakes.agent_policy import AgentPolicy
from tests.fakes.clock import FakeClock
from tests.harness.model_calls import call, limits, user
from tests.harness.tiny_chat import tiny_chat
from tests.harness.waiting import settle, until
from trainer.engines.generation import Finish, Generation, Sampling
from trainer.model_gateway.sessions import Sessions
from trainer.model_gateway.stand_alone.documents import SessionState
from trainer.model_gateway.stand_alone.registry import SessionDefaults, SessionRegistry
from trainer.model_gateway.stand_alone.requests import OpenRequest
from trainer.model_gateway.stand_alone.settings import Retention

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


class HeldExport:
    """Writes each recording when the test lets it; with ``failing``, the first one fails otherwise."""

    def __init__(self, *, failing: bool = False) -> None:
        self.begun = 0
        self.gate = asyncio.Event()
        self._failing = failing

    async def append(self, document: bytes) -> None:
        self.begun += 1
        first = self.begun == 1
        await self.gate.wait()
        if first and self._failing:
            raise MemoryError("a document too large")


def idle_registry(export: HeldExport, clock: FakeClock) -> SessionRegistry:
    chat = tiny_chat()
    retention = Retention(idle_s=0.02, ended_sessions=0)
    now = clock.monotonic
    sessions = Sessions(AgentPolicy(chat, ["Yes."]), chat, now)
    return SessionRegistry(sessions, SessionDefaults(limits(), Sampling()), retention, export, now)


async def test_idle_sessions_end_also_after_their_owner_ended_one_that_was_next() -> None:
    export, clock = HeldExport(), FakeClock()
    registry = idle_registry(export, clock)
    async with registry.maintained():
        _, second = registry.open(OpenRequest()), registry.open(OpenRequest())
        clock.advance(1.0)
        await until(lambda: export.begun == 1)
        ending = asyncio.create_task(registry.end_session(second.id, SessionState.SEALED))
        await until(lambda: export.begun == 2)
        export.gate.set()
        await ending
        await until(lambda: not registry.summaries())
        registry.open(OpenRequest())
        clock.advance(1.0)
        await until(lambda: not registry.summaries())
    assert export.begun == 3


async def test_a_session_that_was_used_while_another_ended_is_not_idle() -> None:
    export, clock = HeldExport(), FakeClock()
    registry = idle_registry(export, clock)
    async with registry.maintained():
        _, used = registry.open(OpenRequest()), registry.open(OpenRequest())
        clock.advance(1.0)
        await until(lambda: export.begun == 1)
        await used.answer(call(user("Hello")))
        export.gate.set()
        await until(lambda: len(registry.summaries()) == 1)
        await settle()
        assert [shown["id"] for shown in registry.summaries()] == [used.id]


async def test_a_session_that_cannot_be_ended_keeps_no_other_from_it() -> None:
    export, clock = HeldExport(failing=True), FakeClock()
    export.gate.set()
    registry = idle_registry(export, clock)
    async with registry.maintained():
        first, _ = registry.open(OpenRequest()), registry.open(OpenRequest())
        clock.advance(1.0)
        await until(lambda: export.begun == 2)
        registry.open(OpenRequest())
    assert [shown["id"] for shown in registry.summaries()] == [first.id]
    assert export.begun == 3


async def test_at_the_end_a_session_that_its_owner_ends_keeps_no_other_from_its_export() -> None:
    export = HeldExport()
    registry = idle_registry(export, FakeClock())
    names = [registry.open(OpenRequest()).id for _ in range(3)]
    maintained = registry.maintained()
    await maintained.__aenter__()
    closing = asyncio.create_task(maintained.__aexit__(None, None, None))
    await until(lambda: export.begun == 1)
    ending = asyncio.create_task(registry.end_session(names[1], SessionState.SEALED))
    await until(lambda: export.begun == 2)
    export.gate.set()
    await asyncio.gather(ending, closing)
    assert (export.begun, registry.summaries()) == (3, [])
