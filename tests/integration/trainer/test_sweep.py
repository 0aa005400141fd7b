"""Ray Tune schedules the trials of a sweep; a small program stands in for the trainer's command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

from trainer.errors import ConfigError
from trainer.sweep.grid import make_trials, parse_axes
from trainer.sweep.trial_process import SweepPlan
from trainer.sweep.trial_results import read_trials
from trainer.sweep.tuning import TrialResources, tune_trials

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

PROGRAM = """
import json, pathlib, sys, time
settings = dict(word.split("=", 1) for word in sys.argv[3:] if "=" in word)
root = pathlib.Path(settings["root"])
folder = root / settings["name"]
folder.mkdir(parents=True, exist_ok=True)
with (root / "order").open("a") as order:
    order.write(f"begin {settings['name']}\\n")
if settings["seed"] == "2" and not (root / "repaired").exists():
    sys.exit("seed 2 is not allowed")
with (folder / "metrics.jsonl").open("w") as lines:
    for step in range(3):
        metrics = {"reward/mean": int(settings["seed"]) + step / 10, "time/update": 1.0}
        lines.write(json.dumps({"step": step, "time": 1.0 + step, "metrics": metrics}) + "\\n")
with (root / "order").open("a") as order:
    order.write(f"end {settings['name']}\\n")
"""


def test_trials_run_one_after_another_and_the_sweep_is_resumed(tmp_path: Path) -> None:
    program = tmp_path / "trainer.py"
    program.write_text(PROGRAM)
    plan = SweepPlan(tmp_path / "run.toml", (), tmp_path / "sweep", (sys.executable, str(program)))
    axes, _ = parse_axes(["seed=1,2,3"])
    trials = make_trials(axes)
    # More CPUs than any machine has: a trial takes all there are.
    failed = tune_trials(plan, trials, TrialResources(10_000.0))
    assert set(failed) == {"seed-2"}
    assert "seed 2 is not allowed" in failed["seed-2"]
    assert [each.done for each in read_trials(plan.root, trials)] == [True, False, True]
    order = (plan.root / "order").read_text().splitlines()
    assert order == ["begin seed-1", "end seed-1", "begin seed-2", "begin seed-3", "end seed-3"]

    (plan.root / "repaired").touch()
    assert tune_trials(plan, trials, TrialResources(10_000.0)) == {}
    assert (plan.root / "order").read_text().splitlines()[5:] == ["begin seed-2", "end seed-2"]
    assert [round(each.reward or 0.0, 3) for each in read_trials(plan.root, trials)] == [1.1, 2.1, 3.1]


def test_a_sweep_that_wants_more_gpus_than_exist_is_refused_before_its_first_trial(tmp_path: Path) -> None:
    plan = SweepPlan(tmp_path / "run.toml", (), tmp_path / "sweep", (sys.executable, "-c", ""))
    axes, _ = parse_axes(["seed=1,2"])
    with pytest.raises(ConfigError, match="wants 10000 GPUs, and Ray sees"):
        tune_trials(plan, make_trials(axes), TrialResources(1.0, 10_000.0))
    assert not plan.root.exists()
