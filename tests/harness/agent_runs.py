"""Runs of the agents in examples/, by the command line, and what they recorded."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.harness.agent_packages import ROOT, agent_python
from trainer.tracking.jsonl import read_metrics

__all__ = ["AgentFigures", "agent_run", "figures_of", "run_words"]

RUN_S = 3000


def run_words(name: str) -> list[str]:
    """Overrides by which an agent's run file uses the environment of the tests."""
    return [f"agent.python={agent_python(name)}"]


def agent_run(name: str) -> Path:
    """The agent's run file."""
    file = ROOT / "examples" / name / "run.toml"
    assert tomllib.loads(file.read_text())["name"] == name
    return file


@dataclass(frozen=True)
class AgentFigures:
    """Figures of the episodes of a run."""

    episodes: int
    graded: int
    calls: int
    """Answered calls, each of them a turn."""
    sequences: int
    sampled: int
    """Tokens of the calls."""
    trained: int
    """Tokens with a loss mask."""
    difference: float
    """Largest difference of log-probabilities between engine and learner, in nats."""

    @property
    def sequences_per_episode(self) -> float:
        return self.sequences / self.episodes

    @property
    def spliced(self) -> float:
        """Share of the calls after an episode's first that extend an earlier one."""
        later = self.calls - self.episodes
        return (self.calls - self.sequences) / later if later else 1.0


def figures_of(folder: Path) -> AgentFigures:
    """Of the run in a folder."""
    played = [
        trajectory
        for line in (folder / "trajectories.jsonl").read_text().splitlines()
        for trajectory in json.loads(line)["trajectories"]
    ]
    segments = [segment for trajectory in played for segment in trajectory["segments"]]
    turns = [turn for segment in segments for turn in segment["turns"]]
    metrics: Sequence[dict[str, float]] = list(read_metrics(folder / "metrics.jsonl").values())
    return AgentFigures(
        episodes=len(played),
        graded=sum(trajectory["score"] is not None for trajectory in played),
        calls=len(turns),
        sequences=len(segments),
        sampled=sum(turn["end"] - turn["start"] for turn in turns),
        trained=sum(sum(segment["loss_mask"]) for segment in segments),
        difference=max(row["mismatch/max"] for row in metrics if "mismatch/max" in row),
    )
