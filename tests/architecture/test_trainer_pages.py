"""The trainer's pages agree with the code on metrics, settings and sizes."""

import ast
import re
from pathlib import Path

import pytest

from sandbox_settings import settings_of
from scripts import capacity_tables
from trainer.config import EngineConfig, LearnerConfig
from trainer.config.algorithm import MismatchConfig
from trainer.tracking.jsonl import FORMER_METRICS
from trainer.update.objective import mismatch_metrics

ROOT = Path(__file__).parents[2]
SILENT = {"cli", "config", "launch", "report"}
"""Packages that emit no metric, and look some up."""
HELPERS = {"phase": "time/{}", "_shares": "{}/*"}
"""Functions that make a metric's name of the word that they are called with."""
NAME = re.compile(r"[a-z]+(/[a-z_0-9*]+)+")


def texts(tree):
    """Texts of a module's code, f-strings with a star in each gap; docstrings are none."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inside |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "*" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def made_by_helpers(tree):
    """Names whose first or last word is an argument."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in HELPERS:
                yield HELPERS[called].format(node.args[0].value)


def emitted():
    trees = [
        ast.parse(path.read_text())
        for path in (ROOT / "trainer").rglob("*.py")
        if path.relative_to(ROOT / "trainer").parts[0] not in SILENT
    ]
    names = {text for tree in trees for text in texts(tree) if NAME.fullmatch(text)}
    assert {"mismatch/*", "time/*"} <= names
    names -= {"mismatch/*", "time/*", *FORMER_METRICS}
    return names.union(mismatch_metrics([], MismatchConfig()), *map(made_by_helpers, trees))


def documented():
    page = (ROOT / "docs" / "trainer" / "operations.md").read_text()
    rows = page.partition("\n## Metrics\n")[2].splitlines()
    cells = [row.split("|")[1] for row in rows if row.startswith("| `")]
    return [re.sub(r"[A-Z]+", "*", name) for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_every_metric_is_documented_once():
    listed = documented()
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) == emitted()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_fits_is_what_plan_says():
    """``python -m scripts.capacity_tables`` writes it."""
    page = capacity_tables.SIZES_PAGE.read_text()
    rows = capacity_tables.size_rows()
    assert capacity_tables.with_rows(page, capacity_tables.SIZES_HEAD, rows) == page


def test_settings_of_large_models_are_settings():
    rows = capacity_tables.SIZES_PAGE.read_text().partition("\n## Settings\n")[2].partition("\n## ")[0]
    names = re.findall(r"^\| `([a-z0-9_.]+)", rows, re.MULTILINE)
    assert len(names) > 10
    learner = {setting.key for setting in settings_of(LearnerConfig)} | {"lora"}
    assert set(names) <= learner | {f"engine.{setting.key}" for setting in settings_of(EngineConfig)}
