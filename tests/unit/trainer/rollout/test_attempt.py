"""The course of an attempt is the same whoever plays: created, played, graded and released, or a failure."""

import logging

import pytest

from sandbox_client import SandboxError
from sandbox_client.errors import Failure
from sandbox_contract.problems import FailureClass
from tests.fakes.told_service import ToldService
from tests.harness.agent_episodes import play_by_agent
from tests.harness.scripted_episodes import END, TASK, play
from tests.harness.tiny_chat import tiny_chat
from trainer.config.rollout import RolloutConfig, SamplingConfig, SandboxServiceConfig
from trainer.engines.generation import Finish, Generation
from trainer.errors import AgentFailed, ConfigError, EngineError, Stalled
from trainer.rollout.attempt import EpisodeAttempt, PlayedConversation
from trainer.rollout.base_player import BasePlayer
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import GroupSpec, Line, StopReason, Trajectory, VersionSpan

SPEC = GroupSpec(index=3, task=TASK, seed=40, size=4, max_turns=8)
SAID, REMARK = Line("assistant", "said"), Line("note", "seen")


class FakeLoop:
    """An ``EpisodeLoop`` that says one line, and then ends or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def play_out(self, episode, steps) -> StopReason:
        assert episode.instance_id == "i0"
        await steps.open()
        if self.error is not None:
            raise self.error
        return StopReason.HORIZON

    def recorded(self) -> PlayedConversation:
        return PlayedConversation((), (SAID,), drifted=1, checked=2, remarks=(REMARK,))


async def attempted(service: ToldService, fake: FakeLoop) -> Trajectory:
    chat = tiny_chat()
    async with service.client() as client:
        parts = (client, ScriptedPolicy({}, chat), chat, RolloutConfig(), SandboxServiceConfig(), None)
        player = BasePlayer(*parts)
        try:
            return await EpisodeAttempt(player, SPEC, 2, SamplingConfig()).run(fake)
        finally:
            await player.close()


def verbs(service: ToldService) -> list[str]:
    return [verb for verb, _ in service.requests]


async def test_what_was_played_is_graded_and_its_instance_released() -> None:
    service = ToldService([], info={"difficulty": "easy"})
    played = await attempted(service, FakeLoop())
    assert (played.id, played.seed, played.task.difficulty) == ("3.2", 42, "easy")
    assert (played.stop, played.score, played.success) == (StopReason.HORIZON, 1.0, True)
    assert (played.instance_id, played.drifted, played.checked) == ("i0", 1, 2)
    assert played.lines == (SAID, REMARK)
    assert verbs(service) == ["create_instance", "evaluate", "release_instance"]


@pytest.mark.parametrize(
    ("error", "failure_class"),
    [
        (SandboxError(Failure("told by the test", "sandbox_failed", FailureClass.SANDBOX)), "sandbox"),
        (EngineError("told by the test"), "engine"),
        (Stalled("told by the test"), "timeout"),
        (AgentFailed("told by the test"), "agent"),
    ],
    ids=["sandbox", "engine", "stalled", "agent"],
)
async def test_a_failure_is_a_note_behind_what_was_played_and_no_grade(error, failure_class) -> None:
    service = ToldService([])
    played = await attempted(service, FakeLoop(error))
    assert played.failure is not None
    assert (played.failure.failure_class, played.failure.instance_id) == (failure_class, "i0")
    assert (played.stop, played.score, played.success) == (StopReason.FAILED, None, None)
    assert played.lines == (SAID, REMARK)
    assert verbs(service) == ["create_instance", "release_instance"]


async def test_an_error_that_every_episode_would_meet_is_raised_and_the_instance_released() -> None:
    service = ToldService([])
    with pytest.raises(ConfigError, match="told by the test"):
        await attempted(service, FakeLoop(ConfigError("told by the test")))
    assert service.live == {}


@pytest.mark.parametrize("play_with", [play, play_by_agent])
async def test_the_log_says_which_episodes_were_not_written_as_their_text_would_be(play_with, caplog) -> None:
    chat = tiny_chat()
    letters = [chat.encode(letter)[0] for letter in "Submitted."]

    class Speller:
        async def generate(self, request) -> Generation:
            ids = (*letters, chat.stop_ids[0])
            return Generation(ids, (-1.0,) * len(ids), Finish.STOP, (VersionSpan(0, len(ids), 0),))

    caplog.set_level(logging.DEBUG, "trainer.rollout")
    played = await play_with(ToldService([END]), policy=Speller())
    assert played.drifted == 1
    logged = [each.message for each in caplog.records if "tokenized differently" in each.message]
    assert logged == ["episode 3.2: the text of 1 of 1 turns would be tokenized differently"]
    assert (await play_with(ToldService([END]), "Submitted.")).drifted == 0
