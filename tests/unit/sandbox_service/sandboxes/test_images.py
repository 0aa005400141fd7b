"""Names of images, and which of them are built."""

import asyncio
import dataclasses
import io
import tarfile

import pytest

from sandbox_service.environments.base import Provisions
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.sandboxes import images
from sandbox_service.sandboxes.image_labels import MARK, PREFIX
from sandbox_service.sandboxes.images import build_images, image_reference, image_tag
from tests.fakes.engine import FakeEngine
from tests.harness.waiting import until

SPEC = EchoCatalog.spec


def test_the_tag_says_the_environment_and_its_content():
    name, _, digest = image_tag(SPEC).rpartition("-")
    assert name == "echo"
    assert len(digest) == 16
    assert image_tag(SPEC) == image_tag(SPEC)


def test_the_reference_has_the_registry_in_front():
    assert image_reference(SPEC, "registry.example/team/").startswith(
        "registry.example/team/sandbox-code:echo-"
    )


def test_changed_code_is_another_image(tmp_path, monkeypatch):
    world = tmp_path / "changedenv" / "mine" / "box" / "world.py"
    world.parent.mkdir(parents=True)
    spec = dataclasses.replace(SPEC, name="mine", world_module="changedenv.mine.box.world")
    monkeypatch.syspath_prepend(tmp_path)
    world.write_text("A = 1")
    before = image_tag(spec)
    world.write_text("A = 2")
    assert image_tag(spec) != before


def test_an_image_without_a_recipe_of_its_own_is_made_by_the_common_one():
    other = dataclasses.replace(SPEC, image="sandbox-other")
    assert image_tag(other) == image_tag(SPEC)
    assert image_reference(other).startswith("sandbox-other:echo-")


async def test_what_is_there_is_not_built_again():
    engine = FakeEngine({image_reference(SPEC)})
    said = []
    assert await build_images(engine, [SPEC], said.append) == [image_reference(SPEC)]
    assert engine.built == []
    assert "exists already" in said[0]


async def test_a_missing_image_is_built_on_a_base_from_the_registry(tmp_path):
    engine = FakeEngine(registry={"python:3.11-slim"})
    await build_images(engine, [SPEC], lambda _: None, cache_dir=tmp_path)
    base, image = engine.built
    assert base.tag.startswith("sandbox-base:")
    assert base.arguments == {"BASE": "python:3.11-slim"}
    assert image.tag == image_reference(SPEC)
    assert image.arguments["BASE"] == base.tag
    assert "sandbox_service.environments.echo.box.world" in image.arguments["MODULES"].split()


async def test_every_image_that_is_built_has_the_projects_labels(tmp_path):
    engine = FakeEngine(registry={"python:3.11-slim"})
    (tmp_path / "packages").mkdir()
    provided = dataclasses.replace(SPEC, provisions=Provisions(tmp_path / "packages", "0" * 16))
    await build_images(engine, [SPEC, provided], lambda _: None, cache_dir=tmp_path)
    titles = [build.labels[MARK] for build in engine.built]
    assert titles == ["sandbox-base", "sandbox-code", "sandbox-packages", "sandbox-code"]
    licensed = [f"{PREFIX}licenses" in build.labels for build in engine.built]
    assert licensed == [False, True, False, False], "others chose what is in a base and in packages"


async def test_without_a_registry_the_cached_tree_is_the_base(tmp_path):
    (tmp_path / "base-bookworm.tar").write_bytes(b"tar")
    engine = FakeEngine()
    await build_images(engine, [SPEC], lambda _: None, cache_dir=tmp_path)
    assert engine.loaded == [str(tmp_path / "base-bookworm.tar")]
    assert engine.built[0].arguments == {"BASE": "sandbox-debian:bookworm"}


async def test_force_builds_what_is_there():
    engine = FakeEngine({image_reference(SPEC), "python:3.11-slim"})
    await build_images(engine, [SPEC], lambda _: None, force=True)
    assert [build.tag for build in engine.built][-1] == image_reference(SPEC)


async def test_force_fetches_the_base_again_and_once(tmp_path):
    engine = FakeEngine({"python:3.11-slim"}, registry={"python:3.11-slim"})
    other = dataclasses.replace(SPEC, name="other")
    await build_images(engine, [SPEC, other], lambda _: None, cache_dir=tmp_path, force=True)
    assert engine.pulled == ["python:3.11-slim"]
    assert len(engine.built) == 3


async def test_force_keeps_the_base_that_is_there_where_no_registry_answers(tmp_path):
    engine, said = FakeEngine({"python:3.11-slim"}), []
    await build_images(engine, [SPEC], said.append, cache_dir=tmp_path, force=True)
    assert engine.built[0].arguments == {"BASE": "python:3.11-slim"}
    assert any("python:3.11-slim is kept as it is" in line for line in said)


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A tree that a base is made of, and the tar of an earlier one."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").touch()
    monkeypatch.setenv("SANDBOX_BASE_TREE", str(tmp_path / "tree"))
    tarball = tmp_path / "base-bookworm.tar"
    tarball.write_text("earlier")
    return tarball


async def test_force_makes_the_base_again_that_is_not_from_a_registry(cached, tmp_path):
    engine = FakeEngine({"sandbox-debian:bookworm"})
    await build_images(engine, [SPEC], lambda _: None, cache_dir=tmp_path, force=True)
    assert engine.loaded == [str(cached)]
    with tarfile.open(cached) as archive:
        assert "./file" in archive.getnames()


async def test_force_keeps_the_base_that_cannot_be_made_again(cached, tmp_path, monkeypatch):
    monkeypatch.setenv("SANDBOX_BASE_TREE", str(tmp_path / "missing"))
    said = []
    assert await images.base_tarball(said.append, tmp_path, force=True) == cached
    assert cached.read_text() == "earlier"
    assert "base-bookworm.tar is kept as it is" in said[-1]


async def test_force_keeps_the_imported_base_where_nothing_of_it_is_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("SANDBOX_BASE_TREE", str(tmp_path / "missing"))
    engine, said = FakeEngine({"sandbox-debian:bookworm"}), []
    await build_images(engine, [SPEC], said.append, cache_dir=tmp_path, force=True)
    assert engine.built[0].arguments == {"BASE": "sandbox-debian:bookworm"}
    assert any("sandbox-debian:bookworm is kept as it is" in line for line in said)


async def test_the_build_context_holds_the_recipe_and_the_boxs_files_for_all_to_read():
    engine = FakeEngine({"python:3.11-slim"})
    await build_images(engine, [SPEC], lambda _: None)
    with tarfile.open(fileobj=io.BytesIO(engine.built[-1].context)) as archive:
        entries = archive.getmembers()
    names = {entry.name for entry in entries}
    assert {"Dockerfile", "box/sandbox_service/environments/echo/box/world.py"} <= names
    assert all(entry.mode == 0o644 and entry.uid == 0 for entry in entries)


class SlowEngine(FakeEngine):
    """An engine each of whose calls lasts until two lines have been said since it began."""

    said: list[str]

    async def linger(self):
        before = len(self.said)
        await until(lambda: len(self.said) >= before + 2)

    async def build(self, *words, **named):
        await self.linger()
        await super().build(*words, **named)

    async def pull(self, *words):
        await self.linger()
        await super().pull(*words)

    async def load_tree(self, *words):
        await self.linger()
        await super().load_tree(*words)

    async def export(self, *words):
        await self.linger()


@pytest.fixture
def said(monkeypatch):
    """The lines of the progress, for which no test waits ten seconds."""
    monkeypatch.setattr("local_processes.wait_report.EVERY_S", 0.001)
    return []


@pytest.fixture
def slow(said):
    engine = SlowEngine()
    engine.said = said
    return engine


def without_repetitions(said):
    """Return the lines in order and once each, without the seconds of the reports."""
    return list(dict.fromkeys(line.partition("waiting for ")[2] or line for line in said))


async def test_builds_and_imports_say_what_they_wait_for_and_name_the_logs(slow, said, tmp_path):
    (tmp_path / "base-bookworm.tar").write_bytes(b"tar")
    await build_images(slow, [SPEC], said.append, cache_dir=tmp_path)
    base, image = (build.tag for build in slow.built)
    assert without_repetitions(said) == [
        "importing base-bookworm.tar",
        "the Docker engine, which imports base-bookworm.tar",
        f"{base}: building; log: {tmp_path}/base.log",
        f"the build of {base}; log: {tmp_path}/base.log",
        f"{image}: building; log: {tmp_path}/box-echo.log",
        f"the build of {image}; log: {tmp_path}/box-echo.log",
        f"{image}: built",
    ]
    assert slow.logs == [tmp_path / "base.log", tmp_path / "box-echo.log"]


async def test_a_pull_and_the_build_of_packages_say_what_they_wait_for(slow, said, tmp_path):
    folder = tmp_path / "provisions"
    folder.mkdir()
    slow.registry = {"python:3.11-slim"}
    spec = dataclasses.replace(SPEC, provisions=Provisions(folder, "d1"))
    await build_images(slow, [spec], said.append, cache_dir=tmp_path)
    waits = without_repetitions(said)
    assert "python:3.11-slim from the registry" in waits
    packages = slow.built[1].tag
    assert f"the build of {packages}; log: {tmp_path}/packages-echo.log" in waits


async def test_an_export_says_what_it_waits_for(slow, said, tmp_path):
    slow.registry = {"python:3.11-slim"}
    await images.base_tarball(said.append, tmp_path, slow)
    assert without_repetitions(said)[-1] == f"the Docker engine, which exports {slow.built[0].tag}"


async def test_what_a_bootstrap_prints_goes_to_a_log_and_its_last_line_is_kept(tmp_path):
    output = asyncio.StreamReader()
    output.feed_data(b"".join(b"I: Retrieving package %d\n" % number for number in range(500)))
    output.feed_eof()
    said: list[str] = []
    log = tmp_path / "images" / "base-bookworm.log"
    assert await images.copy_to_log(output, log, said.append) == "I: Retrieving package 499"
    assert len(log.read_text().splitlines()) == 500
    assert said == []


async def test_a_quiet_bootstrap_says_how_far_it_is(tmp_path):
    output = asyncio.StreamReader()
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        output.feed_eof()

    await images.copy_to_log(output, tmp_path / "base.log", hear, every_s=0.001)
    assert said[0].startswith("building the base image, 0 lines so far")


async def test_a_cancellation_that_comes_with_a_line_of_a_bootstrap_is_not_lost(tmp_path):
    output = asyncio.StreamReader()
    copying = asyncio.create_task(images.copy_to_log(output, tmp_path / "base.log", print, every_s=600))
    await asyncio.sleep(0)
    output.feed_data(b"I: Retrieving package 1\n")
    copying.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await copying
