"""Only the composition of a run sees its whole configuration; each part gets its settings."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]

COMPOSITION = {
    "trainer/capacity/needs.py",
    "trainer/capacity/plan.py",
    "trainer/cli/driver.py",
    "trainer/cli/placing.py",
    "trainer/cli/progress.py",
    "trainer/cli/settings.py",
    "trainer/cli/plan.py",
    "trainer/cli/train.py",
    "trainer/config/__init__.py",
    "trainer/config/reading.py",
    "trainer/launch/folder.py",
    "trainer/launch/preflight.py",
    "trainer/launch/run.py",
    "trainer/launch/simulation.py",
    "trainer/launch/gpu_selection.py",
    "trainer/loop/worker.py",
}
"""Modules that compose a run, plan it or keep its configuration."""

WITHOUT_SETTINGS_OF_THEIR_OWN = (
    "trainer/batches/",
    "trainer/report/",
    "trainer/sft/",
    "trainer/tracking/",
)
"""Packages with modules that still take the whole configuration. Add none."""


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
    assert {name for name in found if not name.startswith(WITHOUT_SETTINGS_OF_THEIR_OWN)} == COMPOSITION
