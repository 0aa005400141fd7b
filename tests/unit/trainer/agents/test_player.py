"""Agents play episodes: what is recorded, why an episode ends, and what becomes of failures.

The agent runs in the test's loop; gateway, routes and clients are the real ones.
"""

import asyncio
import pickle
import re

import pytest

from sandbox_client import AgentEpisode, SandboxError
from sandbox_client.errors import ConflictError, RequestError
from sandbox_contract.problems import ErrorCode
from tests.fakes.agents import LocalAgents
from tests.fakes.told_service import ToldService, observed
from tests.harness.agent_episodes import agent_player, ask, loop, play_agent, spec_of
from tests.harness.scripted_episodes import END, PROGRAM, SUBMIT, play
from tests.harness.tiny_chat import tiny_chat
from tests.harness.waiting import until
from trainer.config.rollout import SamplingConfig
from trainer.errors import AgentFailed, AgentLost, EngineError
from trainer.rollout.progress import ProgressMonitor
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import StopReason

TOOL = {"type": "function", "function": {"name": "submit", "description": "", "parameters": {}}}
CALL = '<tool_call>{"name": "submit", "arguments": {"answer": "95"}}</tool_call>'


@pytest.mark.parametrize(
    ("steps", "lines", "settings"),
    [
        ([observed("95", reward=0.5), END], (PROGRAM, SUBMIT), {}),
        ([observed("95", reward=0.5), observed("late", truncated=True)], (PROGRAM, PROGRAM), {}),
        ([observed("1"), observed("2", reward=1.0)], (PROGRAM,) * 3, {"max_turns": 2}),
        ([observed("x " * 600)], (PROGRAM,) * 2, {}),
        ([observed("95"), END], (PROGRAM, SUBMIT), {"sampling": {"max_turn_tokens": 5}}),
        (
            [observed("95", role="tool", tool_call_id="x"), END],
            (CALL, CALL),
            {"chat": {"tool_format": "hermes"}},
        ),
    ],
    ids=["terminated", "truncated", "horizon", "context", "cut-turn", "native-calls"],
)
async def test_what_is_recorded_is_what_the_trainers_own_loop_records(steps, lines, settings):
    tools = [TOOL] if "chat" in settings else []
    own = await play(ToldService(list(steps), tools=tools), *lines, **settings)
    played = await play_agent(ToldService(list(steps), tools=tools), loop, *lines, **settings)
    assert (played.id, played.task, played.seed) == (own.id, own.task, own.seed)
    assert (played.stop, played.score, played.success) == (own.stop, own.score, own.success)
    assert played.failure is None
    assert len(played.segments) == len(own.segments)
    for segment, expected in zip(played.segments, own.segments, strict=True):
        assert segment.token_ids == expected.token_ids
        assert segment.loss_mask == expected.loss_mask
        assert segment.logprobs == expected.logprobs
        for turn, other in zip(segment.turns, expected.turns, strict=True):
            assert (turn.start, turn.end, turn.versions) == (other.start, other.end, other.versions)
            assert (turn.reward, turn.terms, turn.cut) == (other.reward, other.terms, other.cut)
    assert [(each.role, each.content) for each in played.lines] == [
        (each.role, each.content) for each in own.lines
    ]
    assert (played.drifted, played.checked) == (own.drifted, own.checked)


async def test_the_instance_is_created_graded_and_released_with_its_parameters():
    service = ToldService([END])
    settings = {"evaluation_params": {"sparse": True}, "fresh": True}
    await play_agent(service, loop, SUBMIT, params={"shaping": 1}, config=settings)
    assert [verb for verb, _ in service.requests] == [
        "create_instance",
        "step",
        "evaluate",
        "release_instance",
    ]
    (created,) = service.bodies("create_instance")
    assert (created["seed"], created["params"], created["fresh"]) == (40, {"shaping": 1}, True)
    assert service.bodies("evaluate")[0]["params"] == {"sparse": True}
    assert service.live == {}


async def test_an_agent_that_ends_before_the_environment_does_is_graded_as_it_stands():
    async def once(episode):
        await ask(episode, episode.messages)

    service = ToldService([], verdict={"score": 0.25, "success": False})
    played = await play_agent(service, once, PROGRAM)
    assert (played.stop, played.score, len(played.turns)) == (StopReason.AGENT_ENDED, 0.25, 1)


async def test_an_agent_that_raises_after_it_was_answered_is_graded_and_its_error_shown():
    async def raises(episode):
        await ask(episode, episode.messages)
        raise ZeroDivisionError("no such luck")

    service = ToldService([], verdict={"score": 0.0, "success": False})
    played = await play_agent(service, raises, PROGRAM)
    assert (played.stop, played.score, played.failure) == (StopReason.AGENT_ERROR, 0.0, None)
    assert played.lines[-1].role == "agent error"
    assert played.lines[-1].content == "ZeroDivisionError: no such luck"


async def test_an_agent_that_fails_before_the_first_answer_has_no_grade():
    async def raises(episode):
        raise RuntimeError("the package is broken")

    service = ToldService([])
    played = await play_agent(service, raises)
    assert (played.stop, played.score) == (StopReason.FAILED, None)
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.code) == ("agent", "agent_failed")
    assert (played.failure.phase, played.failure.instance_id) == ("agent", "i0")
    assert "the package is broken" in played.failure.detail
    assert service.live == {}
    assert service.bodies("evaluate") == []


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        (None, r"the agent ended \(agent_ended\), and the model at http://\S+ had answered no call$"),
        ({"role": "user", "content": "x", "name": 3}, "had answered no call: .*name"),
    ],
    ids=["no call", "refused"],
)
async def test_an_agent_that_ends_as_usual_without_an_answer_has_no_grade(message, detail):
    async def swallows(episode):
        if message is not None:
            with pytest.raises(Exception, match="400"):
                await ask(episode, [message])

    service = ToldService([])
    played = await play_agent(service, swallows)
    assert (played.stop, played.score) == (StopReason.FAILED, None)
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.code) == ("agent", "agent_failed")
    assert re.search(detail, played.failure.detail)
    assert service.bodies("evaluate") == []


async def test_an_agent_whose_time_is_over_before_the_first_answer_has_no_grade():
    async def sleeps(episode):
        await asyncio.sleep(3600)

    played = await play_agent(ToldService([]), sleeps, agent={"timeout_s": 0.1})
    assert (played.stop, played.score) == (StopReason.FAILED, None)


async def test_an_agent_that_ends_the_episode_by_its_steps_alone_is_graded():
    async def steps(episode):
        await episode.step("95")

    played = await play_agent(ToldService([END]), steps)
    assert (played.stop, played.score, played.turns) == (StopReason.TERMINATED, 1.0, ())


async def test_an_agent_whose_first_prompt_is_too_long_is_graded():
    async def asks(episode):
        answer = await ask(episode, [{"role": "user", "content": "word " * 5000}])
        assert answer["content"] == "The episode has ended."

    played = await play_agent(ToldService([]), asks, PROGRAM)
    assert (played.stop, played.failure) == (StopReason.CONTEXT_FULL, None)


async def test_a_lost_host_has_no_grade_whatever_was_played():
    async def lost(episode):
        await ask(episode, episode.messages)
        raise AgentLost("the process that ran the agent has ended")

    played = await play_agent(ToldService([]), lost, PROGRAM)
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.code) == ("agent", "agent_lost")


async def test_an_agent_that_is_lost_after_a_step_has_failed_in_its_own_phase_and_not_in_the_steps():
    async def steps_and_is_lost(episode):
        message = await ask(episode, episode.messages)
        await episode.step(message)
        raise AgentLost("the process that ran the agent has ended")

    played = await play_agent(ToldService([observed("95")]), steps_and_is_lost, PROGRAM)
    assert played.failure is not None
    assert (played.failure.code, played.failure.phase) == ("agent_lost", "agent")
    assert played.lines[-1].content == "95"


async def test_an_episode_that_was_over_is_graded_though_its_agent_is_lost():
    async def plays_and_is_lost(episode):
        await loop(episode)
        raise AgentLost("504: the proxy did not wait for the answer")

    played = await play_agent(ToldService([observed("95"), END]), plays_and_is_lost, PROGRAM, SUBMIT)
    assert (played.stop, played.score, played.failure) == (StopReason.TERMINATED, 1.0, None)


async def test_a_failure_of_the_engine_is_never_a_grade_whatever_the_agent_makes_of_it():
    class Broken:
        async def generate(self, request):
            raise EngineError("no engine")

    async def swallows(episode):
        with pytest.raises(Exception, match="503"):
            await ask(episode, episode.messages)

    for function in (swallows, loop):
        played = await play_agent(ToldService([]), function, policy=Broken())
        assert played.failure is not None
        assert (played.failure.failure_class, played.failure.phase) == ("engine", "generate")


async def test_a_failure_of_the_service_in_a_step_ends_the_agent_and_is_never_a_grade():
    async def swallows(episode):
        message = await ask(episode, episode.messages)
        with pytest.raises(Exception, match="sandbox"):
            await episode.step(message)
        await asyncio.sleep(3600)

    played = await play_agent(ToldService([ErrorCode.SANDBOX_FAILED]), swallows, PROGRAM)
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.phase) == ("sandbox", "step")


async def test_a_step_that_the_service_refuses_for_its_content_is_the_agents_to_mend():
    async def mends(episode):
        message = await ask(episode, episode.messages)
        with pytest.raises(RequestError):
            await episode.step(message)

    played = await play_agent(ToldService([ErrorCode.INVALID_REQUEST]), mends, PROGRAM)
    assert (played.stop, played.failure) == (StopReason.AGENT_ENDED, None)


async def test_after_the_end_the_model_says_so_and_the_instance_refuses_steps():
    said = []

    async def goes_on(episode):
        message = await ask(episode, episode.messages)
        await episode.step(message)
        said.append((await ask(episode, [*episode.messages, message]))["content"])
        with pytest.raises(ConflictError):
            await episode.step("once more")

    service = ToldService([END])
    played = await play_agent(service, goes_on, SUBMIT)
    assert said == ["The episode has ended."]
    assert (played.stop, len(played.turns)) == (StopReason.TERMINATED, 1)
    assert len(service.bodies("step")) == 1


async def test_an_agent_that_never_ends_is_ended_at_its_time_and_graded():
    async def sleeps(episode):
        await ask(episode, episode.messages)
        await asyncio.sleep(3600)

    service = ToldService([], verdict={"score": 0.5, "success": False})
    played = await play_agent(service, sleeps, PROGRAM, agent={"timeout_s": 2.0})
    assert (played.stop, played.score) == (StopReason.TIME_LIMIT, 0.5)


async def test_an_agents_key_is_refused_after_its_episode():
    kept = []

    async def keeps(episode):
        kept.append((episode.url, episode.api_key))
        await loop(episode)

    policy = ScriptedPolicy({"t": [SUBMIT] * 3}, tiny_chat())
    async with agent_player(ToldService([END]), LocalAgents(keeps), policy) as player:
        await player.play_episode(spec_of(), 0, SamplingConfig())
        with pytest.raises(SandboxError, match="409"):
            await AgentEpisode(*kept[0]).__aenter__()


async def test_rewards_go_to_the_call_that_made_the_step():
    async def late(episode):
        first = await ask(episode, episode.messages)
        (call,) = first["tool_calls"]
        await ask(episode, [{"role": "user", "content": "an aside"}])
        await episode.call_tool("submit", {"answer": "95"}, tool_call_id=call["id"])

    service = ToldService([observed("95", reward=0.5)], tools=[TOOL])
    played = await play_agent(service, late, CALL, PROGRAM, chat={"tool_format": "hermes"})
    assert [turn.reward for turn in played.turns] == [0.5, 0.0]


async def test_rewards_of_a_step_that_names_no_call_of_the_model_go_to_the_last_one():
    async def own_names(episode):
        await ask(episode, episode.messages)
        await ask(episode, episode.messages)
        await episode.call_tool("submit", {"answer": "95"})

    service = ToldService([observed("95", reward=0.5)])
    played = await play_agent(service, own_names, PROGRAM, PROGRAM)
    assert [turn.reward for turn in played.turns] == [0.0, 0.5]


async def test_steps_of_one_episode_wait_for_each_other():
    async def both(episode):
        await ask(episode, episode.messages)
        await asyncio.gather(episode.step("a"), episode.step("b"))

    service = ToldService([observed("1", reward=0.25), observed("2", reward=0.5)])
    played = await play_agent(service, both, PROGRAM)
    assert [body["step_index"] for body in service.bodies("step")] == [0, 1]
    assert [turn.reward for turn in played.turns] == [0.75]


async def test_an_agent_learns_nothing_of_rewards():
    seen = []

    async def looks(episode):
        message = await ask(episode, episode.messages)
        seen.append(await episode.step(message))

    service = ToldService([observed("95", reward=0.5, info={"score": 0.5})])
    await play_agent(service, looks, PROGRAM)
    assert seen == [[{"role": "user", "content": "95"}]]


async def test_an_agent_may_end_its_episode_or_report_that_it_failed():
    def ends(error):
        async def play(episode):
            await ask(episode, episode.messages)
            await episode.end(error)
            await asyncio.sleep(3600)

        return play

    assert (await play_agent(ToldService([]), ends(None), PROGRAM)).stop is StopReason.AGENT_ENDED
    failed = await play_agent(ToldService([]), ends("out of ideas"), PROGRAM)
    assert (failed.stop, failed.lines[-1].content) == (StopReason.AGENT_ERROR, "out of ideas")


async def test_the_watch_sees_agents_calls_and_steps():
    heard = []

    class Listening(ProgressMonitor):
        def entered(self, trajectory_id, phase, instance_id="", may_take_s=0.0):
            heard.append((phase, instance_id))
            super().entered(trajectory_id, phase, instance_id, may_take_s)

    await play_agent(ToldService([END]), loop, SUBMIT, watch=Listening())
    phases = [phase for phase, _ in heard]
    assert phases == ["create", "agent", "generate", "agent", "step", "agent", "evaluate", "release"]


async def test_one_agent_that_misbehaves_disturbs_no_other():
    async def one_in_three(episode):
        await loop(episode)
        if episode.api_key[-1] in "abcdefghijklmnop":
            raise RuntimeError("a bad day")

    policy = ScriptedPolicy({"t": [SUBMIT] * 3}, tiny_chat())
    async with agent_player(ToldService([END]), LocalAgents(one_in_three), policy) as player:
        played = await asyncio.gather(
            *(player.play_episode(spec_of(), each, SamplingConfig()) for each in range(12))
        )
    assert {each.stop for each in played} == {StopReason.TERMINATED}
    assert len({each.instance_id for each in played}) == 12


async def test_closing_the_player_ends_its_agents():
    async def sleeps(episode):
        await asyncio.sleep(3600)

    launcher = LocalAgents(sleeps)
    async with agent_player(ToldService([]), launcher, ScriptedPolicy({}, tiny_chat())) as player:
        playing = asyncio.create_task(player.play_episode(spec_of(), 0, SamplingConfig()))
        await until(lambda: launcher.jobs)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
    assert launcher.closed
    assert playing.cancelled()


def test_agents_failures_cross_processes():
    for error in (AgentFailed("a"), AgentLost("b")):
        assert type(pickle.loads(pickle.dumps(error))) is type(error)
