"""Each agent trains: its episodes are graded and recorded whole, and the learner agrees with the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("ray", reason="Ray is not installed")

from tests.harness.agent_packages import AGENTS, ROOT
from tests.harness.agent_runs import RUN_S, agent_run, figures_of, run_words
from tests.harness.sampling import is_whole

pytestmark = [pytest.mark.ray, pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(RUN_S + 60)]

FEW = ["steps=2", "rollout.groups=2", "rollout.group_size=2", "evaluation.splits=[]"]
LESS = ["warm_start.limit=32", "warm_start.batch=8", "warm_start.steps=30", "tracking.progress=false"]
AGREES = 1e-4
"""Nats: the most that engine and learner may differ on the tokens of a run in float32 on a CPU."""
SPLICING = ("langgraph", "openai_agents", "openai_sdk")
"""Agents that keep every answer of the model in their history."""


SAMPLE = ("smolagents",)
"""An agent that does not keep the model's answers as they were, which asks more of the trainer.

It trains where the trainer's side of agents changes, and each agent where it changes itself. The tests
beside this one play episodes with all agents.
"""


@pytest.mark.parametrize(
    "name", [name for name in AGENTS if (name in SAMPLE and is_whole("agents")) or is_whole(name)]
)
def test_an_agent_trains(name, tmp_path):
    words = [*run_words(name), f"root={tmp_path}", 'service.start=["sandbox.kind=process"]', *FEW, *LESS]
    command = [Path(sys.executable).with_name("sandbox-trainer"), "train", agent_run(name), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = figures_of(tmp_path / name)
    assert (found.episodes, found.graded) == (8, 8)
    assert found.trained == found.sampled > 0
    assert found.calls >= found.episodes
    assert found.difference < AGREES
    if name in SPLICING:
        assert found.sequences == found.episodes
