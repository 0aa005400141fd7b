"""The pipeline SFT, reward model, PPO is killed in each stage and between stages, and trains the same."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("ray", reason="Ray is not installed")

import torch

from tests.harness.killed_run import ROOT, KilledRun, RunPlan, ledger
from tests.harness.sampling import where_changed
from trainer.update.checkpoint import read_note, read_tensors

pytestmark = [
    pytest.mark.ray,
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(2400),
    where_changed("stages", "test_stage_resume resumes them in one process"),
]

RUN = ROOT / "deploy" / "runs" / "pipeline_cpu.toml"
SFT, REWARD, PPO = 4, 4, 3
"""Steps of each stage."""
PLAN = {"steps": PPO, "groups": 2, "group_size": 2, "deadline_s": 1200.0}
STAGES = f"""
extends = "{{run}}"

[[stages]]
kind = "reward_model"
name = "reward"
data = {{{{ files = ["{{data}}"] }}}}
steps = {REWARD}
batch = 4
held_out = 0.15
measure_every = 2

[[stages]]
kind = "rl"
steps = {PPO}
"""
TIMES = ("time/", "perf/", "speed/", "throughput/")


@dataclass
class PipelineRun(KilledRun):
    """A run that is killed by the number of steps of all stages that have a checkpoint."""

    def start(self, *options: str) -> None:
        super().start(
            f"warm_start.steps={SFT}",
            "warm_start.batch=4",
            "warm_start.limit=12",
            "model.layers=2",
            f"rollout.groups={self.plan.groups}",
            f"rollout.group_size={self.plan.group_size}",
            "algorithm.drop_flat_groups=false",
            "evaluation.limit=4",
            "checkpoint.every=2",
            "checkpoint.keep=20",
            f"checkpoint.export_every={SFT}",
            "service.start=['sandbox.kind=process']",
            "tracking.progress=false",
            *options,
        )

    def shown(self) -> int:
        """The number of steps with a checkpoint."""
        file = self.folder / "progress.json"
        return json.loads(file.read_text())["step"] if file.exists() else 0

    def learned(self) -> dict[int, dict[str, float]]:
        """Metrics of the stages on given data, by step, without those that depend on the clock."""
        found: dict[int, dict[str, float]] = {}
        for line in self.lines("metrics.jsonl"):
            if line["step"] < SFT + REWARD:
                exact = {name: value for name, value in line["metrics"].items() if not is_timed(name)}
                found.setdefault(line["step"], {}).update(exact)
        return found

    def checkpoint(self, step: int) -> dict[str, torch.Tensor]:
        """All tensors of a checkpoint: weights, moments, and the policy kept behind a reward model."""
        folder = self.folder / "checkpoints" / f"step-{step:07d}"
        shapes = read_note(folder).shapes
        tensors = {name: torch.zeros(shape) for name, shape in shapes.items()}
        read_tensors(folder, tensors, shapes)
        return tensors


def is_timed(name: str) -> bool:
    return name.startswith(TIMES) or "per_second" in name or "tflops" in name or "mfu" in name


def pipeline(folder: Path, name: str) -> PipelineRun:
    reward = tomllib.loads(RUN.read_text())["stages"][0]
    lines = (RUN.parent / reward["data"]["files"][0]).read_text().splitlines(keepends=True)
    (folder / "pairs.jsonl").write_text("".join(lines[:40]))
    file = folder / "run.toml"
    file.write_text(STAGES.format(run=RUN, data=folder / "pairs.jsonl"))
    return PipelineRun(RunPlan(folder, "", **PLAN), name, file)


def whole(folder: Path) -> PipelineRun:
    run = pipeline(folder, "whole")
    run.start()
    try:
        assert run.until_end() == 0, run.said()
    finally:
        run.stop()
    return run


def test_a_pipeline_that_is_killed_in_every_stage_trains_what_it_would_have_trained(tmp_path):
    run = pipeline(tmp_path, "killed")
    run.start()
    try:
        assert run.until_step(2), run.said()  # in the warm start
        go_on(run)
        assert run.until_step(SFT), run.said()  # between the warm start and the reward model, or just behind
        go_on(run)
        assert run.until_step(SFT + 2), run.said()  # in the training of the reward model
        # The checkpoint may be from before the kill, when nothing of the resumed run is there yet.
        assert run.until_there("worker"), run.said()
        run.kill("worker")
        assert run.until_step(SFT + REWARD), run.said()  # between it and PPO
        go_on(run)
        assert run.until_step(SFT + REWARD + 2), run.said()  # in PPO
        refuse_then_go_on(run, tmp_path / "pairs.jsonl")
        assert run.until_end() == 0, run.said()
    finally:
        run.stop()
    assert ledger(run).wrong == ()
    assert [line["when"] for line in run.lines("evaluations.jsonl")] == ["before", "after"]
    same = whole(tmp_path)
    assert run.learned() == same.learned()
    for step in (SFT, SFT + REWARD):
        mine, theirs = run.checkpoint(step), same.checkpoint(step)
        assert mine.keys() == theirs.keys()
        assert [name for name in mine if not torch.equal(mine[name], theirs[name])] == []
    for weights in ("trunk.safetensors", "score.safetensors"):
        mine, theirs = (each.folder / "reward_models" / "reward" / weights for each in (run, same))
        assert mine.read_bytes() == theirs.read_bytes()


def go_on(run: PipelineRun) -> None:
    """Kill the driver and resume the run, which is not waited for."""
    run.kill_driver()
    run.start("--resume")


def refuse_then_go_on(run: PipelineRun, data: Path) -> None:
    """Kill the driver; a run whose data changed is not resumed, and one whose data is restored is."""
    run.kill_driver()
    before = data.read_text()
    data.write_text(before.replace("print", "echo", 1))
    run.start("--resume")
    assert run.until_end() != 0
    assert "pairs.jsonl changed since the run began" in " ".join(run.said().split())
    data.write_text(before)
    run.start("--resume")
