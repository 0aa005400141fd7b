"""An evolution by the command line: all phases of an iteration, played and trained by the parts of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("ray", reason="Ray is not installed")

from tests.harness.sampling import where_changed
from trainer.batches.exports import TRAJECTORIES
from trainer.evolve.exploration import read_explored

pytestmark = [
    pytest.mark.ray,
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    where_changed("evolve", "its four runs start one after another"),
]

ROOT = Path(__file__).parents[3]
TASKS, EPISODES, HELD_OUT = 6, 3, 8
SHORT = (
    *("name=short", "tracking.progress=false", 'service.start=["sandbox.kind=process"]'),
    *("warm_start=none", f"evaluation.limit={HELD_OUT}"),
    *("evolve.iterations=1", f"evolve.explore.tasks={TASKS}", f"evolve.explore.episodes={EPISODES}"),
    "evolve.explore.temperatures=[0.7,1.0,1.3]",
    # Any score is good enough, since an untrained model solves nothing.
    *("evolve.select.threshold=0", "evolve.train.epochs=2", "evolve.train.batch=16", "evolve.keep=always"),
)


def test_an_iteration_explores_selects_trains_evaluates_and_keeps_the_new_model(tmp_path):
    trainer = Path(sys.executable).with_name("sandbox-trainer")
    command = [trainer, "evolve", "deploy/runs/evolve_cpu.toml", *SHORT, f"root={tmp_path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = tmp_path / "short"
    iteration = folder / "iteration_1"
    explored = json.loads((iteration / "explored.json").read_text())
    assert explored["episodes"] + explored["failures"] == TASKS * EPISODES
    assert set(explored["by_temperature"]) == {"0.7", "1", "1.3"}
    played = {each.id: each for each in read_explored(iteration / "short.1.explore" / TRAJECTORIES, 1)}
    selected = [json.loads(line) for line in (iteration / "selected.jsonl").read_text().splitlines()]
    assert selected
    assert {each["id"] for each in selected} <= played.keys()
    for part in (folder / "iteration_0", iteration):
        results = json.loads((part / "evaluation.json").read_text())
        assert len(results["tasks"]) == HELD_OUT
    assert json.loads((iteration / "decision.json").read_text())["kept"] is True
    assert (folder / "model").resolve().is_relative_to(iteration)
    assert (folder / "report.html").exists()
