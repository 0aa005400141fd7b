"""Episodes with a counterpart: a server, or the policy in a session of its own."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sandbox_contract.problems import ErrorCode, FailureClass
from tests.fakes.chat_server import FakeChatServer, says
from tests.fakes.told_service import ToldService, observed
from tests.harness.agent_episodes import play_by_agent
from tests.harness.http_server import serving
from tests.harness.scripted_episodes import play, spoken
from tests.harness.tiny_chat import tiny_chat
from trainer.config.rollout import Retry
from trainer.engines.generation import GenerationRequest
from trainer.errors import EngineError
from trainer.rollout.scripted import ScriptedPolicy
from trainer.rollout.strategies import Remedy, remedy
from trainer.types import EpisodeKey, StopReason, Trajectory

Play = Callable[..., Awaitable[Trajectory]]

AWAITS = {"info": {"awaits": "user"}}
STEPS = [
    observed("Shall I?", **AWAITS),
    observed("Yes.", reward=0.25),
    observed("Bye.", terminated=True),
]
POLICY = {"counterpart": {"kind": "policy"}}
OPPONENT = {"counterpart": {"kind": "policy", "trained": True, "credit": "zero_sum"}}


def both(key: EpisodeKey) -> str:
    """The agent's and the counterpart's lines."""
    return f"{'user' if key.trajectory_id.endswith('/counterpart') else 'agent'} {key.turn}"


def script() -> ScriptedPolicy:
    return ScriptedPolicy(both, tiny_chat())


def sent(service: ToldService) -> list[tuple[str | None, str]]:
    return [(body["message"].get("name"), body["message"]["content"]) for body in service.bodies("step")]


async def test_the_policy_plays_the_counterpart_and_is_not_trained_on_it() -> None:
    service = ToldService(STEPS)
    played = await play(service, policy=script(), config=POLICY)
    assert (played.stop, played.score) == (StopReason.TERMINATED, 1.0)
    assert sent(service) == [(None, "agent 0"), ("user", "user 0"), (None, "agent 1")]
    assert spoken(played) == ["agent 0", "agent 1"]
    assert [turn.reward for turn in played.turns] == [0.25, 0.0]
    shown = [(line.role, line.content) for line in played.lines]
    assert shown[-2:] == [("counterpart: user", "Shall I?"), ("counterpart: assistant", "user 0")]


async def test_the_counterparts_tokens_are_trained_if_asked() -> None:
    config = {"counterpart": {"kind": "policy", "trained": True}}
    played = await play(ToldService(STEPS), policy=script(), config=config)
    assert spoken(played) == ["agent 0", "agent 1", "user 0"]
    assert len(played.segments) == 2
    assert [segment.partner for segment in played.segments] == [False, True]
    *lines, theirs = played.lines_of_turns()
    assert [played.lines[line].content for line in lines] == ["agent 0", "agent 1"]
    assert theirs is None


async def test_a_trained_opponents_segments_are_told_from_the_agents() -> None:
    played = await play(ToldService(STEPS), policy=script(), config=OPPONENT)
    assert [segment.opponent for segment in played.segments] == [False, True]
    assert not any(segment.partner for segment in played.segments)


def silent(key: EpisodeKey) -> str:
    """The agent's lines; the counterpart samples its stop token alone."""
    return "" if key.trajectory_id.endswith("/counterpart") else both(key)


async def test_an_opponent_that_says_nothing_is_left_to_the_game_to_decide() -> None:
    again = observed("No move.", **AWAITS)
    service = ToldService([STEPS[0], again, observed("You win.", terminated=True)])
    played = await play(service, policy=ScriptedPolicy(silent, tiny_chat()), config=OPPONENT)
    assert sent(service) == [(None, "agent 0"), ("user", ""), ("user", "")]
    assert (played.failure, played.stop, played.score) == (None, StopReason.TERMINATED, 1.0)
    theirs = [turn for segment in played.segments if segment.opponent for turn in segment.turns]
    assert len(theirs) == 2


@pytest.mark.parametrize("trained", [False, True])
async def test_any_other_counterpart_that_says_nothing_has_failed(trained: bool) -> None:
    config = {"counterpart": {"kind": "policy", "trained": trained}}
    played = await play(ToldService(STEPS), policy=ScriptedPolicy(silent, tiny_chat()), config=config)
    assert played.failure is not None
    assert played.failure.code == "counterpart_nonsense"


async def test_a_counterpart_that_begins_speaks_before_the_agent() -> None:
    service = ToldService(
        [observed("The user wants a bike."), observed("Bye.", terminated=True)],
        messages=[{"role": "system", "content": "You are a user."}, {"role": "user", "content": "Hello?"}],
        info={"awaits": "user"},
    )
    played = await play(service, policy=script(), config=POLICY)
    assert sent(service) == [("user", "user 0"), (None, "agent 0")]
    assert played.lines[0].content == "The user wants a bike."


def lost_at_once() -> ToldService:
    """A game that the opponent begins, and loses with its second message."""
    steps = [observed("No move.", **AWAITS), observed("You win.", terminated=True)]
    return ToldService(steps, info={"awaits": "user"})


@pytest.mark.parametrize("play_with", [play, play_by_agent])
async def test_a_trained_opponent_learns_from_a_game_that_it_loses_before_the_agents_turn(
    play_with: Play,
) -> None:
    service = lost_at_once()
    played = await play_with(service, policy=script(), config=OPPONENT)
    assert (played.failure, played.stop, played.score) == (None, StopReason.TERMINATED, 1.0)
    assert spoken(played) == ["user 0", "user 1"]
    assert all(segment.opponent for segment in played.segments)
    assert [line.role for line in played.lines][-2:] == ["counterpart: user", "counterpart: assistant"]
    assert service.live == {}


@pytest.mark.parametrize("trained", [False, True])
async def test_any_other_counterpart_that_ends_the_episode_before_the_agents_turn_has_failed(
    trained: bool,
) -> None:
    config = {"counterpart": {"kind": "policy", "trained": trained}}
    played = await play(lost_at_once(), policy=script(), config=config)
    assert played.failure is not None
    assert played.failure.code == "counterpart_ended"


async def test_an_agent_with_a_loop_of_its_own_does_not_notice_the_counterpart() -> None:
    service = ToldService(STEPS)
    played = await play_by_agent(service, policy=script(), config=POLICY)
    assert sent(service) == [(None, "agent 0"), ("user", "user 0"), (None, "agent 1")]
    assert (played.stop, played.score) == (StopReason.TERMINATED, 1.0)
    assert spoken(played) == ["agent 0", "agent 1"]
    trained = await play_by_agent(
        ToldService(STEPS), policy=script(), config={"counterpart": {"kind": "policy", "trained": True}}
    )
    assert spoken(trained) == ["agent 0", "agent 1", "user 0"]


async def test_a_server_plays_the_counterpart(monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeChatServer([says("I agree.")], key="secret")
    monkeypatch.setenv("COUNTERPART_API_KEY", "secret")
    with serving(server.app) as url:
        service = ToldService(STEPS)
        config = {"counterpart": {"kind": "model", "base_url": f"{url}/v1", "model": "m"}}
        played = await play(service, policy=script(), config=config)
    assert sent(service)[1] == ("user", "I agree.")
    assert server.bodies[0]["messages"] == [{"role": "user", "content": "Shall I?"}]
    assert played.score == 1.0


@pytest.mark.parametrize("play_with", [play, play_by_agent])
async def test_nonsense_of_the_counterpart_is_a_failure_class_of_its_own(play_with: Play) -> None:
    server = FakeChatServer([says("")] * 2)
    with serving(server.app) as url:
        config: dict[str, Any] = {
            "counterpart": {"kind": "model", "base_url": f"{url}/v1", "model": "m", "timeout_s": 5}
        }
        service = ToldService(STEPS)
        played = await play_with(service, policy=script(), config=config)
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.code) == ("counterpart", "counterpart_nonsense")
    assert played.failure.phase == "counterpart"
    assert (played.score, played.stop) == (None, StopReason.FAILED)
    shown = [(line.role, line.content) for line in played.lines]
    assert shown[-1] == ("counterpart: user", "Shall I?")
    assert remedy(played.failure, 1, Retry(attempts=2)) is Remedy.RETRY
    assert remedy(played.failure, 2, Retry(attempts=2)) is Remedy.GIVE_UP
    assert service.live == {}


async def test_a_message_that_the_instance_refuses_is_the_counterparts_failure() -> None:
    played = await play(ToldService([STEPS[0], ErrorCode.INVALID_REQUEST]), policy=script(), config=POLICY)
    assert played.failure is not None
    assert played.failure.failure_class == FailureClass.COUNTERPART


async def test_an_engine_that_fails_for_the_counterpart_is_an_engine_failure() -> None:
    class Failing(ScriptedPolicy):
        async def generate(self, request: GenerationRequest) -> Any:
            if request.key.trajectory_id.endswith("/counterpart"):
                raise EngineError("out of memory")
            return await super().generate(request)

    played = await play(ToldService(STEPS), policy=Failing(both, tiny_chat()), config=POLICY)
    assert played.failure is not None
    assert played.failure.failure_class == "engine"


async def test_a_counterpart_with_a_full_session_fails_as_such() -> None:
    steps = [STEPS[0], observed("again", **AWAITS), observed("x", terminated=True)]
    config = {"counterpart": {"kind": "policy", "max_turns": 1}}
    played = await play(ToldService(steps), policy=script(), config=config)
    assert played.failure is not None
    assert played.failure.code == "counterpart_limit"


@pytest.mark.parametrize("play_with", [play, play_by_agent])
async def test_an_instance_that_waits_for_a_counterpart_that_is_not_configured_ends_the_run(
    play_with: Play,
) -> None:
    played = await play_with(ToldService(STEPS), policy=script())
    assert played.failure is not None
    assert "no counterpart" in played.failure.detail
    assert remedy(played.failure, 1, Retry()) is Remedy.RAISE
