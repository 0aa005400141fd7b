"""The policy of continuations over real HTTP: turns with tools and seeds, and failures that are no turns."""

import pytest

pytest.importorskip("openai", reason="openai is not installed")

from local_processes.waiting import RetryWaits
from sandbox_contract.messages import FunctionSchema, Tool
from tests.fakes.chat_server import FakeChatServer, Reply, calls, says
from tests.fakes.recorded import message
from tests.harness.http_server import serving
from trainer.config.step_labels import ContinuingModelConfig
from trainer.errors import ConfigError, EngineError
from trainer.step_labels.served_policy import ServedPolicy

TOOL = Tool(function=FunctionSchema(name="act", description="Act.", parameters={"type": "object"}))
SAID = [message("user", "Go.")]


async def turn_of(server: FakeChatServer, wait_s: float = 0.0, **settings):
    with serving(server.app) as address:
        policy = ServedPolicy(
            ContinuingModelConfig(base_url=f"{address}/v1", model="policy", **{"attempts": 1, **settings}),
            RetryWaits(wait_s, wait_s),
        )
        try:
            return await policy.write_turn(SAID, [TOOL], 7)
        finally:
            await policy.close()


async def test_a_turn_may_call_the_tools_that_were_offered() -> None:
    server = FakeChatServer([calls("act", way="north")])
    turn = await turn_of(server, temperature=0.5)
    assert turn.tool_calls[0].function.name == "act"
    (body,) = server.bodies
    assert (body["seed"], body["temperature"], body["tools"][0]["function"]["name"]) == (7, 0.5, "act")


async def test_a_context_that_is_full_ends_the_continuation() -> None:
    full = Reply(
        {"error": {"message": "maximum context length is 10", "code": "context_length_exceeded"}}, 400
    )
    assert await turn_of(FakeChatServer([full])) is None


@pytest.mark.parametrize("reply", [Reply({"error": {"message": "busy"}}, 503), Reply({"choices": []})])
async def test_a_server_that_gives_no_turn_is_a_failure(reply) -> None:
    with pytest.raises(EngineError):
        await turn_of(FakeChatServer([reply]))


async def test_a_model_that_is_not_there_ends_the_labelling() -> None:
    with pytest.raises(ConfigError, match=r"check rule\.policy"):
        await turn_of(FakeChatServer([Reply({"error": {"message": "no such model"}}, 404)]))


async def test_a_failed_request_is_repeated() -> None:
    server = FakeChatServer([Reply({"error": {"message": "busy"}}, 503), says("north")])
    assert (await turn_of(server, attempts=2)).content == "north"


async def test_at_the_deadline_the_last_failure_is_told() -> None:
    server = FakeChatServer([Reply({"error": {"message": "busy"}}, 503)])
    with pytest.raises(EngineError, match=r"gave no turn within 120 s; .* answered 503: .*busy"):
        await turn_of(server, attempts=2, wait_s=3600)
