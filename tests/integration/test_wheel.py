"""The project as it is released: source distributions, and wheels from them, used without a checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from local_processes.ports import free_port
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.sandboxes.images import image_reference
from tests.harness.boxes import need_engine
from tests.harness.sampling import where_changed

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "sandbox_service",
    "trainer",
    "deploy",
    "service_cli",
    "sandbox_conformance",
    "sandbox_plugins",
    "sandbox_settings",
    "local_processes",
    "page_styles",
)
CLIENT_PACKAGES = ("sandbox_client", "sandbox_contract", "sandbox_taskset")
OUTSIDE = {"deploy/runs/README.md"}
"""Files for readers of the checkout."""
PREFIX = "from-a-wheel.test/"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source distributions by name, built from a copy, so that the checkout gets no build folder."""
    pytest.importorskip("setuptools", reason="setuptools is not installed")
    copy, output = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in (*PACKAGES, "clients", "docker", "constraints"):
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=ignored)
    for file in ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE", "clients.py"):
        shutil.copy(ROOT / file, copy)
    build = f"from setuptools.build_meta import build_sdist; build_sdist({str(output)!r})"
    for folder in (copy, copy / "clients"):
        python(["-c", build], folder)
    return {file.name.partition("-")[0]: file for file in output.glob("*.tar.gz")}


@pytest.fixture(scope="module")
def wheels(sources: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels by distribution, built from the source distributions."""
    output = tmp_path_factory.mktemp("wheel")
    built = map(str, sources.values())
    pip("wheel", *built, "--no-deps", "--no-build-isolation", "--wheel-dir", str(output))
    return {file.name.partition("-")[0]: file for file in output.glob("*.whl")}


@pytest.fixture(scope="module")
def site(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the wheels are installed."""
    target = tmp_path_factory.mktemp("site")
    pip("install", *map(str, wheels.values()), "--no-deps", "--target", str(target))
    return target


def pip(*words: str) -> None:
    python(["-m", "pip", "--disable-pip-version-check", "--quiet", *words], None)


def python(words: list[str], folder: Path | None) -> None:
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr


def command_of(app: str, *words: str) -> list[str]:
    return [sys.executable, "-P", "-c", f"from {app}.app import main; main()", *words]


def variables(site: Path | str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(site)}


def run(site: Path | str, folder: Path, command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=folder, env=variables(site), capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def files_of(root: Path, packages: tuple[str, ...]) -> set[str]:
    return {
        path.relative_to(root).as_posix()
        for package in packages
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def files_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_source_holds_what_an_installation_in_locked_versions_needs(sources: dict[str, Path]) -> None:
    with tarfile.open(sources["training_sandbox"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    locks = {path.relative_to(ROOT).as_posix() for path in (ROOT / "constraints").iterdir()}
    assert names >= {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} | locks


def test_the_wheel_holds_every_file_of_the_packages(wheels: dict[str, Path]) -> None:
    recipes = {f"sandbox_service/sandboxes/recipes/{path.name}" for path in (ROOT / "docker").iterdir()}
    ours = files_of(ROOT, PACKAGES) | recipes | {"clients.py"}
    assert files_in(wheels["training_sandbox"]) == ours - OUTSIDE


def test_the_clients_wheel_holds_every_file_of_its_packages(wheels: dict[str, Path]) -> None:
    assert files_in(wheels["training_sandbox_client"]) == files_of(ROOT / "clients", CLIENT_PACKAGES)


def test_the_clients_wheel_comes_with_its_licence(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels["training_sandbox_client"]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/LICENSE"))
        assert archive.read(name) == (ROOT / "LICENSE").read_bytes()


def test_the_client_works_from_its_wheel_alone(wheels: dict[str, Path], tmp_path: Path) -> None:
    pip("install", str(wheels["training_sandbox_client"]), "--no-deps", "--target", str(tmp_path))
    # Many projects have a folder of this name.
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "__init__.py").write_text("")
    code = "import sandbox_client, sandbox_contract, sys; print(sandbox_client.__file__, *sys.modules)"
    where, *loaded = run(tmp_path, tmp_path, [sys.executable, "-P", "-c", code]).split()
    assert Path(where).is_relative_to(tmp_path)
    assert "sandbox_service" not in loaded


def test_a_run_file_that_comes_with_the_wheel_is_found_with_its_data(site: Path, tmp_path: Path) -> None:
    shown = run(site, tmp_path, command_of("trainer.cli", "config", "deploy/runs/cpu_demo.toml"))
    (demonstrations,) = re.findall(r'^demonstrations = "(.*)"', shown, re.MULTILINE)
    assert Path(demonstrations).is_relative_to(site)
    assert Path(demonstrations).is_file()


@pytest.mark.docker
@pytest.mark.ray
def test_docker_boxes_are_served_from_an_empty_folder(site: Path, tmp_path: Path) -> None:
    need_engine()
    settings = [f"sandbox.image_prefix={PREFIX}", "environments.enabled=['code']"]
    image = run(site, tmp_path, command_of("service_cli.commands", "images", "build", *settings)).strip()
    try:
        assert image == image_reference(CodeCatalog.spec, PREFIX), "as the checkout would build it"
        words = ["--port", str(free_port()), "sandbox.kind=docker", "pools.code.max_boxes=1", *settings]
        played = served(site, tmp_path, command_of("service_cli.commands", "serve", *words))
    finally:
        subprocess.run(["docker", "image", "rm", image], capture_output=True, check=False)
    assert played["overall"]["episodes"] == played["overall"]["successes"] == 2


def served(site: Path, folder: Path, command: list[str]) -> dict[str, dict[str, int]]:
    """Return the actions of the reference policy against a service that the command starts."""
    with (folder / "service.log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=variables(site), stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert process.stdout is not None
        ready = next((line for line in process.stdout if line.startswith("ready: ")), "")
        assert ready, (folder / "service.log").read_text()
        words = ["run", "--server", ready.split()[1], "--split", "easy", "--limit", "2", "--json"]
        return dict(json.loads(run(site, folder, command_of("service_cli.commands", *words))))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


PLUGIN_PARTS = '''
import torch
from sandbox_contract.messages import Message
from trainer.update.objective.policy_losses import PolicyLoss


def variety(trajectory, *, most):
    return len(set(trajectory.segments[0].token_ids)) / most


def reinforce(inputs):
    """REINFORCE; the clipped share of its metrics is 1, which no built-in loss has here."""
    return PolicyLoss(-inputs.advantages_BT * inputs.logprobs_BT, torch.ones_like(inputs.mask_BT))


class Answers:
    def parse(self, text, first=0, tools=()):
        return Message(role="assistant", content=f"<answer>{len(text)}</answer>")

    def render(self, message):
        return message.content or ""

    def describe_tools(self, tools):
        return ""
'''
"""Modules of a plugin package, besides its environment: a reward, a loss and a tool format."""

ENTRY_POINTS = """
[project.entry-points."training_sandbox.rewards"]
variety = "trivia.parts:variety"

[project.entry-points."training_sandbox.losses"]
reinforce = "trivia.parts:reinforce"

[project.entry-points."training_sandbox.tool_formats"]
answers = "trivia.parts:Answers"
"""

PLUGIN_RUN = """
name = "plugged"
root = "runs"
steps = 2
service = { start = ["sandbox.kind=process"] }
model = { kind = "tiny", layers = 2, context = 512 }
chat = { tools = "none", tool_format = "answers" }
tasks = { environment = "trivia", splits = ["train"], limit = 4 }
reward = { kind = "variety", options = { most = 400 } }
algorithm = { loss = { kind = "reinforce" }, drop_flat_groups = false }
tracking = { progress = false, report = false }

[rollout]
groups = 2
group_size = 2
max_turns = 1
sampling = { max_turn_tokens = 16 }
"""


def written_package(site: Path, folder: Path) -> Path:
    """The package that ``envs new`` of the installed site writes."""
    words = ("envs", "new", "trivia", "--single-turn", "-o", str(folder / "project"))
    run(site, folder, command_of("service_cli.commands", *words))
    return folder / "project"


def installed_package(project: Path, folder: Path) -> Path:
    """The folder in which the wheel of a package is installed, and nothing else."""
    wheel, target = folder / "wheel", folder / "plugin"
    pip("wheel", str(project), "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheel))
    pip("install", *map(str, wheel.glob("*.whl")), "--no-deps", "--target", str(target))
    return target


def test_a_plugin_package_is_checked_from_its_wheel(site: Path, tmp_path: Path) -> None:
    """The conformance suite comes with the wheel, and finds the environment by its entry point."""
    both = f"{installed_package(written_package(site, tmp_path), tmp_path)}{os.pathsep}{site}"
    user = tmp_path / "user"
    user.mkdir()
    checked = run(both, user, command_of("service_cli.commands", "envs", "check", "--sandbox", "process"))
    assert "passed: trivia (process)" in checked
    assert not re.search(r"\d+ (failed|error)", checked)


@pytest.mark.ray
@pytest.mark.vllm
@where_changed("plugins")
def test_a_plugin_package_is_trained_with_from_its_wheel(site: Path, tmp_path: Path) -> None:
    """Its environment, reward, loss and tool format, by the names of its entry points."""
    pytest.importorskip("vllm", reason="vLLM is not installed")
    project = written_package(site, tmp_path)
    (project / "trivia" / "parts.py").write_text(PLUGIN_PARTS)
    described = project / "pyproject.toml"
    described.write_text(
        described.read_text().replace("\n[tool.setuptools]", f"{ENTRY_POINTS}\n[tool.setuptools]")
    )
    both = f"{installed_package(project, tmp_path)}{os.pathsep}{site}"
    user = tmp_path / "user"
    user.mkdir()
    (user / "run.toml").write_text(PLUGIN_RUN)

    listed = json.loads(run(both, user, command_of("trainer.cli", "plugins", "--json")))
    assert {(each["name"], each["package"], each["problem"]) for each in listed} == {
        (name, "trivia 0.1.0", "") for name in ("variety", "reinforce", "answers")
    }
    run(both, user, command_of("trainer.cli", "train", "run.toml"))
    folder = user / "runs" / "plugged"
    metrics = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["metrics"]["policy/clip_share"] for line in metrics] == [1.0, 1.0]
    groups = [json.loads(line) for line in (folder / "trajectories.jsonl").read_text().splitlines()]
    episodes = [each for group in groups for each in group["trajectories"]]
    assert len(episodes) == 8
    for each in episodes:
        (segment,) = each["segments"]
        assert each["task"]["environment"] == "trivia"
        assert each["reward"] == each["outcome"] == len(set(segment["token_ids"])) / 400
