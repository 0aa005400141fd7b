"""Preparations of environments run without the service: with the environment's folder and packages alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_service.environments.preparation_modules import imported_names, preparation_modules

ENVIRONMENTS = Path(__file__).resolve().parents[2] / "sandbox_service" / "environments"
PREPARED = sorted(path.parents[1].name for path in ENVIRONMENTS.glob("*/setup/prepare.py"))


@pytest.mark.parametrize("name", PREPARED)
def test_a_preparation_imports_nothing_of_the_service(name: str) -> None:
    for module, file in preparation_modules(ENVIRONMENTS / name).items():
        names = imported_names(module, file)
        of_the_service = sorted(each for each in names if each.partition(".")[0] == "sandbox_service")
        assert not of_the_service, f"{name}: {module} imports {of_the_service}, which a preparation lacks"


def test_there_are_preparations_and_some_import_what_runs_in_boxes() -> None:
    assert {"bfcl", "reasoning_gym"} <= set(PREPARED)
    modules = preparation_modules(ENVIRONMENTS / "reasoning_gym")
    assert {"setup.pools", "box.generators", "box.judges", "box.arithmetic"} <= modules.keys()
    assert "box.world" not in modules
