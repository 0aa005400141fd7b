"""Only the composition of a run sees its whole configuration; each part gets its settings."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]

COMPOSITION = {
    "trainer/batches/actor.py",
    "trainer/batches/build.py",
    "trainer/batches/players.py",
    "trainer/batches/simulation.py",
    "trainer/batches/stage_data.py",
    "trainer/batches/worker_actor.py",
    "trainer/capacity/engines_alone.py",
    "trainer/capacity/needs.py",
    "trainer/capacity/plan.py",
    "trainer/cli/driver.py",
    "trainer/cli/earlier_run.py",
    "trainer/cli/evaluate.py",
    "trainer/cli/placing.py",
    "trainer/cli/progress.py",
    "trainer/cli/settings.py",
    "trainer/cli/sweep.py",
    "trainer/cli/plan.py",
    "trainer/cli/train.py",
    "trainer/config/__init__.py",
    "trainer/config/derived_runs.py",
    "trainer/config/reading.py",
    "trainer/config/stage_selection.py",
    "trainer/evolve/checks.py",
    "trainer/evolve/exploration.py",
    "trainer/evolve/launched.py",
    "trainer/evolve/phase_runs.py",
    "trainer/evolve/running.py",
    "trainer/launch/baseline.py",
    "trainer/launch/folder.py",
    "trainer/launch/plugin_check.py",
    "trainer/launch/preflight.py",
    "trainer/launch/recorded_training.py",
    "trainer/launch/replacing.py",
    "trainer/launch/run.py",
    "trainer/launch/simulation.py",
    "trainer/launch/gpu_selection.py",
    "trainer/launch/stage_check.py",
    "trainer/loop/plan.py",
    "trainer/loop/worker.py",
    "trainer/offline/records.py",
    "trainer/report/run_data.py",
    "trainer/tracking/stored_run.py",
}
"""Modules that compose a run or one of its processes, plan it, or keep or show its configuration."""


def _imports_run_config(path: Path) -> bool:
    return any(
        alias.name == "RunConfig"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


def test_only_the_composition_of_a_run_imports_its_whole_configuration() -> None:
    found = {
        str(path.relative_to(ROOT)) for path in (ROOT / "trainer").rglob("*.py") if _imports_run_config(path)
    }
    assert found == COMPOSITION
