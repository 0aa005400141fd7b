"""A job for the agents of tests that never speak to the model or to the episode."""

from __future__ import annotations

from sandbox_contract.agents import AgentTask
from trainer.agents.launcher import AgentJob

__all__ = ["JOB"]

JOB = AgentJob(
    "t",
    AgentTask(
        base_url="http://127.0.0.1:9/v1",
        model="policy",
        episode_url="http://127.0.0.1:9/episode",
        messages=(),
    ),
    "key",
    "instance",
    9.0,
)
