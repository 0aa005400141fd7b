"""Instances that are there before their episodes: each is used once or released, and none is needed."""

import asyncio
from dataclasses import replace

import pytest

from sandbox_contract.problems import ErrorCode
from tests.fakes.told_service import ToldService
from tests.harness.scripted_episodes import END, SUBMIT, TASK
from tests.harness.tiny_chat import tiny_chat
from tests.harness.waiting import until
from trainer.config.rollout import RolloutConfig, SamplingConfig, SandboxServiceConfig
from trainer.rollout.episode import EpisodePlayer
from trainer.rollout.instances import PreparedInstances
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import GroupSpec

SPEC = GroupSpec(index=3, task=TASK, seed=40, size=2, max_turns=8)


def player_of(client):
    chat = tiny_chat()
    policy = ScriptedPolicy({"t": (SUBMIT,)}, chat)
    return EpisodePlayer(client, policy, chat, RolloutConfig(), SandboxServiceConfig())


async def test_create_requests_have_the_parameters_of_their_group():
    service = ToldService([END])
    async with service.client() as client:
        player = player_of(client)
        for params in ({"a": 1}, {}):
            await player.play_episode(replace(SPEC, params=params), 0, SamplingConfig())
        await player.close()
    assert [body["params"] for body in service.bodies("create_instance")] == [{"a": 1}, {}]


async def test_an_episode_is_played_in_the_instance_that_was_prepared_for_it():
    service = ToldService([END])
    async with service.client() as client:
        player = player_of(client)
        player.prepare_instance(SPEC, 1)
        player.prepare_instance(SPEC, 1)
        await until(lambda: service.live)
        played = await player.play_episode(SPEC, 1, SamplingConfig())
        other = await player.play_episode(SPEC, 0, SamplingConfig())
        assert (played.instance_id, other.instance_id) == ("i0", "i1")
        assert played.scored
        await until(lambda: service.live == {})
        assert len(service.bodies("create_instance")) == 2
        again = await player.play_episode(SPEC, 1, SamplingConfig())
        assert again.instance_id == "i2"
        await player.close()


async def test_what_could_not_be_prepared_is_created_when_the_episode_begins():
    service = ToldService([END], refuses={"create_instance": ErrorCode.QUOTA_EXCEEDED})
    async with service.client() as client:
        player = player_of(client)
        player.prepare_instance(SPEC, 0)
        await until(lambda: service.bodies("create_instance"))
        await until(lambda: not len(player.instances.prepared))
        service.refuses = {}
        assert (await player.play_episode(SPEC, 0, SamplingConfig())).scored
        await player.close()


@pytest.mark.parametrize("ends", ["closed", "forgotten"])
async def test_what_nobody_takes_is_released(ends):
    service, late = ToldService([END]), asyncio.Event()

    async def sleep(_):
        await late.wait()

    async with service.client() as client:
        prepared = PreparedInstances(player_of(client).instances.open, create_s=5.0, sleep=sleep)
        prepared.prepare_instance(SPEC, 0)
        await until(lambda: service.live)
        if ends == "forgotten":
            late.set()
            await until(lambda: not service.live)
        await prepared.close()
        assert service.live == {}
        assert await prepared.take_instance(SPEC, 0) is None
