"""A model behind an OpenAI-compatible server plays the corridor, and fails in every way that servers fail."""

import httpx

from sandbox_client import AsyncSandboxClient, RetryPolicy
from sandbox_contract.messages import FunctionSchema, Message, Tool
from sandbox_service.config import ServerConfig
from sandbox_service.gateway.app import build_app
from service_cli.policies.chat_server import ChatServer
from service_cli.policies.model_policy import ChatSampling, ModelPolicy
from service_cli.policies.player import PolicyRun
from service_cli.policies.policies import View
from tests.fakes.chat_server import FakeChatServer, Reply, calls, says
from tests.fakes.games import GameBackend, game_registry
from tests.fakes.pictures import PNG
from tests.harness.http_server import serving

FULL = Reply({"error": {"message": "maximum context length is 9 tokens"}}, 400)


async def played(fake: FakeChatServer, task_ids: list[str], sampling: ChatSampling | None = None, **options):
    backend = GameBackend(game_registry("textcraft"))
    app = build_app(ServerConfig(), backend.registry, backend)
    with serving(fake.app) as url:
        policy = ModelPolicy("m", ChatServer(url, timeout_s=5.0), sampling)
        run = PolicyRun("textcraft", (), "openai", policy, 4, **options)
        transport, retry = httpx.ASGITransport(app), RetryPolicy(base_s=0.0, attempts=2)
        async with AsyncSandboxClient("http://localhost", transport=transport, retry=retry) as client:
            await run.play(client, task_ids)
    assert backend.live() == []
    return run


async def test_tool_calls_are_the_actions_and_observations_come_back_as_their_answers() -> None:
    fake = FakeChatServer([calls("act", action="go north"), calls("act", None, action="go north")])
    run = await played(fake, ["corridor-2"], ChatSampling(temperature=0.5, max_tokens=64))
    (outcome,) = run.outcomes
    assert (outcome.success, outcome.score, outcome.steps, outcome.category) == (True, 1.0, 2, "short")
    assert (outcome.model_calls, outcome.tokens_in, outcome.tokens_out) == (2, 20, 4)
    first, second = fake.bodies
    assert (first["model"], first["temperature"], first["max_tokens"]) == ("m", 0.5, 64)
    assert [each["function"]["name"] for each in first["tools"]] == ["act"]
    assert [each["role"] for each in first["messages"]] == ["system", "user"]
    assert [each["role"] for each in second["messages"]] == ["system", "user", "assistant", "tool"]
    said, answer = second["messages"][2:]
    assert (said["content"], said["tool_calls"][0]["function"]["arguments"]) == (
        None,
        '{"action": "go north"}',
    )
    assert (answer["tool_call_id"], answer["content"]) == ("c1", "You went north 1 times.")


async def test_a_models_reasoning_goes_to_the_service_and_not_back_to_the_model() -> None:
    fake = FakeChatServer([says("go north", reasoning_content="hm", reasoning="so"), says("go north")])
    with serving(fake.app) as url:
        policy = ModelPolicy("m", ChatServer(url))
        actor = policy.make_actor("t", 0)
        said = await actor.act(View((), (), {}))
        assert said is not None
        await actor.act(View((said,), (), {}))
        await policy.aclose()
    assert (said.content, said.reasoning_content, said.reasoning) == ("go north", "hm", "so")
    assert fake.bodies[1]["messages"] == [{"role": "assistant", "content": "go north"}]


async def test_a_model_that_sees_gets_an_environments_picture() -> None:
    fake = FakeChatServer([says("go north")])
    with serving(fake.app) as url:
        policy = ModelPolicy("m", ChatServer(url))
        seen = (Message(role="user", content="a room", images=(PNG,)),)
        await policy.make_actor("t", 0).act(View(seen, (), {}))
        await policy.aclose()
    text, picture = fake.bodies[0]["messages"][0]["content"]
    assert (text["text"], picture["image_url"]) == ("a room", {"url": PNG})


async def test_plain_text_is_an_action_too_and_an_empty_answer_is_one() -> None:
    fake = FakeChatServer([says("Thought: on.\nAction: go north"), says(None), says("go north")])
    run = await played(fake, ["corridor-2"])
    assert (run.outcomes[0].success, run.outcomes[0].steps) == (True, 3)
    assert all("temperature" not in body and "max_tokens" not in body for body in fake.bodies)


async def test_tools_as_text_for_servers_without_tool_calls() -> None:
    text = 'On. <tool_call>{"name": "act", "arguments": {"action": "go north"}}</tool_call>'
    fake = FakeChatServer([says(text)])
    run = await played(fake, ["corridor-1"], ChatSampling(text_tools=True))
    assert run.outcomes[0].success is True
    (body,) = fake.bodies
    assert "tools" not in body
    assert "<tools>" in body["messages"][0]["content"]


async def test_a_failing_model_server_is_a_failure_of_class_policy_and_never_a_score() -> None:
    def answer(body):
        return (
            calls("act", action="go north") if "corridor of 1" in str(body["messages"]) else Reply("x", 418)
        )

    run = await played(FakeChatServer(answer), ["corridor-1", "corridor-2", "corridor-3"])
    summary = run.summary()
    assert summary.failures == {"policy": 2}
    assert summary.failure_codes == {"policy/model_refused": 2}
    assert (summary.overall.graded, summary.overall.successes, summary.overall.mean_score) == (1, 1, 1.0)


async def test_a_full_context_ends_the_episode_which_is_graded_and_counted() -> None:
    run = await played(FakeChatServer([calls("act", action="go north"), FULL]), ["corridor-2"])
    (outcome,) = run.outcomes
    assert (outcome.failed, outcome.score, outcome.ended) == (None, 0.5, "context_length")
    assert run.summary().endings == {"context_length": 1}


async def test_max_tokens_above_the_room_that_is_left_does_not_end_the_episode() -> None:
    fake = FakeChatServer(lambda body: FULL if "max_tokens" in body else calls("act", action="go north"))
    run = await played(fake, ["corridor-2"], ChatSampling(temperature=0.5, max_tokens=64))
    (outcome,) = run.outcomes
    assert (outcome.success, outcome.ended, outcome.model_calls) == (True, "", 2)
    assert ["max_tokens" in body for body in fake.bodies] == [True, False] * 2
    assert {body["temperature"] for body in fake.bodies} == {0.5}


async def test_a_model_that_never_had_a_turn_has_no_grade() -> None:
    run = await played(FakeChatServer(lambda _: FULL), ["corridor-2"], ChatSampling(max_tokens=64))
    (outcome,) = run.outcomes
    assert outcome.failed is not None
    assert (outcome.failed.qualified_code, outcome.score) == ("policy/model_refused", None)
    assert "maximum context length is 9 tokens" in outcome.failed.detail


async def test_answers_that_were_cut_are_counted() -> None:
    run = await played(FakeChatServer([says("go nor", "length"), says("go north")]), ["corridor-1"])
    assert (run.summary().cut, run.summary().model_calls) == (1, 2)


async def test_an_episode_stops_at_the_environments_limit_and_at_ours() -> None:
    looking = FakeChatServer(lambda _: calls("act", action="look"))
    assert (await played(looking, ["corridor-3"])).outcomes[0].steps == 5
    run = await played(looking, ["corridor-3"], max_steps=2)
    assert (run.outcomes[0].steps, run.outcomes[0].score) == (2, 0.0)


async def test_calls_without_ids_get_some_and_arguments_are_sent_as_text() -> None:
    fake = FakeChatServer(lambda _: calls("act", None, action="look"))
    with serving(fake.app) as url:
        policy = ModelPolicy("m", ChatServer(url))
        actor = policy.make_actor("t", 0)
        earlier = {"id": "old", "function": {"name": "act", "arguments": {"action": "é"}}}
        spoken = Message.model_validate({"role": "assistant", "tool_calls": [earlier]})
        view = View((spoken,), (Tool(function=FunctionSchema(name="act")),), {})
        ids = [message.tool_calls[0].id for _ in range(2) if (message := await actor.act(view))]
        await policy.aclose()
    assert ids == ["call_1", "call_2"]
    assert fake.bodies[0]["messages"][0]["tool_calls"][0]["function"]["arguments"] == '{"action": "é"}'
