"""The recipes of the project's own images."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from sandbox_service.sandboxes.image_labels import MARK, PREFIX
from scripts.install import Machine, choose
from scripts.project_image import PIP, Recipe, source_distributions

VERSION = metadata.version("training-sandbox")
CPU = choose(Machine(driver=None, local_torch=False, cpu_index=False), {"ENGINE": "vllm-cpu"})
GPU = choose(Machine(driver=None, local_torch=False, cpu_index=False), {"ENGINE": "vllm"})


@pytest.mark.parametrize(
    ("recipe", "tag"),
    [
        (Recipe("service", CPU), f"training-sandbox:{VERSION}"),
        (Recipe("gvisor", CPU), f"training-sandbox:{VERSION}-gvisor"),
        (Recipe("trainer", CPU), f"training-sandbox-trainer:{VERSION}"),
        (Recipe("trainer", GPU), f"training-sandbox-trainer:{VERSION}-cuda"),
    ],
)
def test_an_image_is_named_after_its_content_and_the_release(recipe: Recipe, tag: str) -> None:
    assert recipe.tag == tag


@pytest.mark.parametrize("kind", ["service", "gvisor", "trainer"])
def test_an_image_has_the_projects_labels(kind: str) -> None:
    labels = Recipe(kind, CPU).labels
    assert labels[MARK] == Recipe(kind, CPU).tag.partition(":")[0]
    assert labels[f"{PREFIX}version"] == VERSION
    assert labels[f"{PREFIX}licenses"] == "Apache-2.0"


def test_only_the_service_is_built_without_a_network() -> None:
    networks = {kind: Recipe(kind, CPU).network for kind in ("service", "gvisor", "trainer")}
    assert networks == {"service": "none", "gvisor": "default", "trainer": "default"}


def test_wheels_have_no_module_that_an_earlier_build_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("setuptools", reason="setuptools is not installed")
    root, sources, wheels = tmp_path / "checkout", tmp_path / "sources", tmp_path / "wheels"
    for project, package in ((root, "shop"), (root / "clients", "shop_client")):
        for module in (project / package / "__init__.py", project / "build/lib" / package / "removed.py"):
            module.parent.mkdir(parents=True)
            module.touch()
        described = f"[project]\nname = '{package}'\nversion = '1'\n"
        (project / "pyproject.toml").write_text(f"{described}[tool.setuptools]\npackages = ['{package}']\n")
    # What builds is that of this environment: no package index is asked.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("UV_NO_BUILD_ISOLATION", "1")
    built = source_distributions(sources, root)
    words = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels))
    subprocess.run([sys.executable, *words, *map(str, built)], check=True, timeout=120)
    modules = {
        name
        for wheel in wheels.iterdir()
        for name in zipfile.ZipFile(wheel).namelist()
        if name.endswith(".py")
    }
    assert modules == {"shop/__init__.py", "shop_client/__init__.py"}
    assert not list(root.glob("**/bdist*"))


def test_the_version_of_pip_in_an_image_is_fixed() -> None:
    assert PIP.startswith("pip==")


def test_no_image_leaves_its_byte_code_to_processes_that_cannot_write_it() -> None:
    recipes = (Path(__file__).parents[3] / "docker").glob("*.Dockerfile")
    assert [recipe.name for recipe in recipes if "--no-compile" in recipe.read_text()] == []
