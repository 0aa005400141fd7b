"""Agents in another Python's environment, which has packages that the trainer's need not agree with."""

from __future__ import annotations

import sysconfig
import venv

import pytest

from tests.fakes.told_service import ToldService
from tests.harness.agent_episodes import agent_player, spec_of
from tests.harness.scripted_episodes import END, SUBMIT
from tests.harness.tiny_chat import tiny_chat
from trainer.agents.host_messages import HostSettings
from trainer.agents.hosts import HostedAgents
from trainer.config.rollout import SamplingConfig
from trainer.errors import ConfigError
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import StopReason

AGENT = """
import sys
from pathlib import Path

import httpx

def play(episode):
    Path("prefix").write_text(sys.prefix)
    answer = httpx.post(
        f"{episode.base_url}/chat/completions",
        json={"model": episode.model, "messages": list(episode.messages)},
        headers={"authorization": f"Bearer {episode.api_key}"},
        timeout=30,
    )
    episode.step(answer.json()["choices"][0]["message"])
"""


@pytest.fixture
def other(tmp_path):
    """An environment without packages."""
    folder = tmp_path / "other"
    venv.create(folder, with_pip=False)
    return folder


def agents(folder, python):
    (folder / "mine.py").write_text(AGENT)
    return HostedAgents(HostSettings(function="mine:play"), 1, folder=folder, python=python)


async def test_a_function_plays_in_the_environment_that_it_is_given(tmp_path, other):
    (site,) = other.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_paths()["purelib"])
    launcher = agents(tmp_path, other / "bin" / "python")
    policy = ScriptedPolicy({"t": (SUBMIT,)}, tiny_chat())
    async with agent_player(ToldService([END]), launcher, policy) as player:
        played = await player.play_episode(spec_of(), 2, SamplingConfig())
    assert (played.stop, played.failure) == (StopReason.TERMINATED, None)
    assert (tmp_path / "prefix").read_text() == str(other)


async def test_an_environment_without_what_the_host_needs_is_named(tmp_path, other):
    launcher = agents(tmp_path, other / "bin" / "python")
    with pytest.raises(ConfigError, match=r"agent.python: .*python lacks a package: No module named"):
        await launcher.start()


async def test_a_python_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"agents cannot be run in .* by .*missing"):
        await agents(tmp_path, tmp_path / "missing").start()
