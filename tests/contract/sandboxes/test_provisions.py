"""An environment's packages and data in a box: its world has them, agents do not see them."""

import asyncio
import dataclasses
import os
import secrets
import shutil
import tempfile
from pathlib import Path

import pytest

from sandbox_service.config import LimitsConfig, SandboxConfig
from sandbox_service.environments.base import EnvironmentSpec, Provisions
from sandbox_service.environments.installation import install
from sandbox_service.sandboxes.docker import DockerEngine
from sandbox_service.sandboxes.factory import open_factory
from sandbox_service.sandboxes.images import build_images
from tests.harness.boxes import Episode, need_engine, need_gvisor
from tests.harness.tiny_recipe import tiny_recipe

SPEC = EnvironmentSpec(
    name="provided",
    world_module="tests.fakes.provided.box.world",
    agent_code=True,
    many_per_worker=False,
    fork=False,
    deterministic=False,
    image="sandbox-code",
)
LOOK = """
import os
for path in {folders!r}:
    try:
        print(os.listdir(path))
    except OSError as error:
        print(type(error).__name__)
try:
    import tinylore
except ImportError as error:
    print(type(error).__name__)
"""


@pytest.fixture(params=[pytest.param("docker", marks=pytest.mark.docker), "gvisor", "process"])
def kind(request):
    if request.param == "docker":
        need_engine()
    if request.param == "gvisor":
        need_gvisor()
    return request.param


@pytest.fixture
def folder():
    """A folder that other user ids can enter."""
    made = Path(tempfile.mkdtemp(prefix="provisions-", dir="/opt" if os.access("/opt", os.W_OK) else None))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
async def factory(kind, folder):
    limits = LimitsConfig(memory_mib=256, pids=64, workspace_mib=16, workspace_inodes=2000)
    config = SandboxConfig(kind=kind, state_dir=folder / "state", limits=limits)
    made = await open_factory(config, f"test{secrets.token_hex(4)}")
    yield made
    await made.sweep()
    await made.close()


@pytest.fixture(params=["own", "operator"])
async def spec(request, kind, factory, folder):
    prepared = await asyncio.to_thread(install, tiny_recipe(folder), folder / "root", lambda _: None)
    data = None
    if request.param == "operator":
        data = folder / "operator"
        data.mkdir()
        (data / "secret.txt").write_text("the operator's")
    spec = dataclasses.replace(SPEC, provisions=Provisions(prepared, prepared.name, data))
    if kind == "docker":
        engine = await DockerEngine.connect(None, 5)
        try:
            await build_images(engine, [spec], lambda _: None)
        finally:
            await engine.close()
    return spec


async def test_the_world_has_packages_and_data_and_the_agent_has_neither(factory, spec):
    box = await factory.start(spec, lambda _: None, lambda _: None)
    try:
        one = Episode(box, "i")
        created = await one.create(spec)
        own = spec.provisions.operator_data is None
        lore = "made by tinylore" if own else "the operator's"
        assert created["observation"]["messages"][0]["content"] == f"tinylore: {lore}"
        answer = await one.say(LOOK.format(folders=created["info"]["folders"]))
        output = answer["observation"]["messages"][0]["content"]
        assert output.split() == ["PermissionError", "PermissionError", "ModuleNotFoundError"]
    finally:
        await box.destroy()
