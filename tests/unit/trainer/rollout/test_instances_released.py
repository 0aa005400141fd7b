"""Instances of graded episodes are released in the background, and all of them before the player closes."""

from tests.fakes.told_service import ToldService
from tests.harness.scripted_episodes import END, SUBMIT, TASK
from tests.harness.tiny_chat import tiny_chat
from trainer.config.rollout import RolloutConfig, SamplingConfig, SandboxServiceConfig
from trainer.rollout.episode import EpisodePlayer
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import GroupSpec


async def test_a_trajectory_does_not_wait_for_the_release_of_its_instance():
    service = ToldService([END])
    chat = tiny_chat()
    async with service.client() as client:
        policy = ScriptedPolicy({"t": (SUBMIT,)}, chat)
        player = EpisodePlayer(client, policy, chat, RolloutConfig(), SandboxServiceConfig())
        spec = GroupSpec(index=3, task=TASK, seed=40, size=1, max_turns=8)
        played = await player.play_episode(spec, 0, SamplingConfig())
        assert played.scored
        assert service.bodies("release_instance") == []
        assert len(player.instances.releases) == 1
        await player.close()
        assert [body["instance_id"] for body in service.bodies("release_instance")] == [played.instance_id]
        assert len(player.instances.releases) == 0
