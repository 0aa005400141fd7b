"""CPU time of an episode beside model and sandbox: the trainer's own loop, and agents in a host process.

    python -m tests.benchmarks.agent_hosts --agent examples.text_loop.agent:play

Episodes of two calls and two steps, 64 at a time. The model says a script and the service's answers are told
beforehand, both in the player's process; gateway, host process, connections and SDK are real. CPU time says
more than wall time where other work shares the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil

from service_cli.bench.machine import describe_machine
from tests.fakes.told_service import ToldService, observed
from tests.harness.agent_episodes import agent_player, spec_of
from tests.harness.scripted_episodes import END, PROGRAM, SUBMIT
from tests.harness.tiny_chat import tiny_chat
from trainer.agents.host_messages import HostSettings
from trainer.agents.hosts import HostedAgents
from trainer.config.rollout import RolloutConfig, SamplingConfig, SandboxServiceConfig
from trainer.rollout.episode import EpisodePlayer
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import StopReason, Trajectory

ROOT = Path(__file__).parents[2]
_AT_ONCE = 64
_STEPS = (observed("95"), END)

_Play = Callable[[int], Awaitable[Trajectory]]


def main() -> int:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--agent", action="append", metavar="MODULE:FUNCTION", help="an agent; repeatable")
    parser.add_argument("--python", type=Path, help="Python of an environment with the agents' packages")
    parser.add_argument("--episodes", type=int, default=512, help="of each; as many again go before them")
    options = parser.parse_args()
    figures = {"own loop": asyncio.run(_own_loop(options.episodes))}
    for agent in options.agent or ["examples.text_loop.agent:play"]:
        figures[agent] = asyncio.run(_agent(agent, options.python, options.episodes))
    report = {"what": "milliseconds an episode", "machine": describe_machine(), "figures": figures}
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


async def _own_loop(episodes: int) -> dict[str, float]:
    chat = tiny_chat()
    async with ToldService(_STEPS).client() as client:
        policy = ScriptedPolicy({"t": (PROGRAM, SUBMIT)}, chat)
        player = EpisodePlayer(client, policy, chat, RolloutConfig(), SandboxServiceConfig())
        spec = spec_of()
        try:
            return await _measured(
                lambda member: player.play_episode(spec, member, SamplingConfig()), episodes, None
            )
        finally:
            await player.close()


async def _agent(function: str, python: Path | None, episodes: int) -> dict[str, float]:
    hosts = HostedAgents(
        HostSettings(function=function, python_path=str(ROOT)), 1, folder=ROOT, python=python
    )
    policy = ScriptedPolicy({"t": (PROGRAM, SUBMIT)}, tiny_chat())
    async with agent_player(ToldService(_STEPS), hosts, policy) as player:
        host, spec = psutil.Process(hosts.pids[0]), spec_of()
        return await _measured(
            lambda member: player.play_episode(spec, member, SamplingConfig()), episodes, host
        )


async def _measured(play: _Play, episodes: int, host: psutil.Process | None) -> dict[str, float]:
    """Play the episodes twice, and return the figures of the second time."""
    await _play_all(play, episodes)
    wall, player, hosted = time.monotonic(), time.process_time(), _cpu_s(host)
    await _play_all(play, episodes)
    scale = 1000 / episodes
    return {
        "player_cpu_ms": round((time.process_time() - player) * scale, 2),
        "host_cpu_ms": round((_cpu_s(host) - hosted) * scale, 2),
        "wall_ms": round((time.monotonic() - wall) * scale, 2),
    }


async def _play_all(play: _Play, episodes: int) -> None:
    for first in range(0, episodes, _AT_ONCE):
        members = range(first, min(first + _AT_ONCE, episodes))
        for played in await asyncio.gather(*(play(member) for member in members)):
            if played.stop is not StopReason.TERMINATED or len(played.turns) != len(_STEPS):
                raise RuntimeError(f"an episode was not played to its end: {played.stop}, {played.failure}")


def _cpu_s(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    times = process.cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    sys.exit(main())
