"""Episodes by a script, played against a service that is told what to answer, over the real client."""

from __future__ import annotations

from typing import Any

from tests.fakes.told_service import ToldService, observed
from tests.harness.tiny_chat import tiny_chat
from trainer.config.rollout import RolloutConfig, SamplingConfig, SandboxServiceConfig
from trainer.rollout.episode import EpisodePlayer
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import GroupSpec, TaskRef, Trajectory

__all__ = ["END", "PROGRAM", "SUBMIT", "TASK", "play", "spoken"]

PROGRAM = "```python\nprint(37+58)\n```"
SUBMIT = '<tool_call>{"name": "submit", "arguments": {"answer": "95"}}</tool_call>'
TASK = TaskRef("code", "train", "t")
END = observed("Submitted.", terminated=True)


async def play(
    service: ToldService,
    *lines: str,
    chat: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
    sampling: dict[str, Any] | None = None,
    max_turns: int = 8,
    index: int = 3,
    params: dict[str, Any] | None = None,
    **parts: Any,
) -> Trajectory:
    """Member 2 of a group. ``parts``: policy, service_times, transport, watch, clock, grace_s."""
    tokenizer = tiny_chat(**(chat or {}))
    policy = parts.pop("policy", None) or ScriptedPolicy({"t": lines}, tokenizer)
    times = SandboxServiceConfig.model_validate(parts.pop("service_times", {}))
    async with service.client(**parts.pop("transport", {})) as client:
        player = EpisodePlayer(
            client, policy, tokenizer, RolloutConfig.model_validate(config or {}), times, **parts
        )
        spec = GroupSpec(index, TASK, seed=40, size=4, max_turns=max_turns, params=params or {})
        try:
            return await player.play_episode(spec, 2, SamplingConfig.model_validate(sampling or {}))
        finally:
            await player.close()


def spoken(trajectory: Trajectory) -> list[str]:
    """Return the text of each turn, by the tokens."""
    chat = tiny_chat()
    return [
        chat.said(segment.token_ids[turn.start : turn.end])
        for segment in trajectory.segments
        for turn in segment.turns
    ]
