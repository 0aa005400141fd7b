"""Outcomes of an image's build: a fault of its author, of the engine's disk, or of a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import docker.errors
import pytest
import requests

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.docker import DockerEngine
from sandbox_service.sandboxes.docker_images import DockerImages, ImageBuild

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Client:
    """Answers as the engine's API does: with lines of output, or with a status at the first one."""

    def __init__(self, lines: list[dict[str, str]], status: int = 200, *, named: bool = False) -> None:
        self._lines = lines
        self._status = status
        self._tags = ["base:1"] if named else []
        self.removed: list[str] = []

    def build(self, **_: Any) -> Iterator[dict[str, str]]:
        if self._status != 200:
            response = requests.Response()
            response.status_code = self._status
            raise docker.errors.APIError(
                "refused", response=response, explanation="unknown instruction: FETCH"
            )
        yield from self._lines

    def df(self) -> dict[str, Any]:
        sizes = {"Size": 300, "SharedSize": 200, "Created": 7}
        listed = [
            {**sizes, "RepoTags": ["box:1", "box:2"], "Labels": {"title": "box"}},
            {**sizes, "RepoTags": None, "Labels": None},
        ]
        return {"Images": listed, "LayersSize": 300}

    def inspect_image(self, _: str) -> dict[str, Any]:
        return {"RepoTags": self._tags}

    def remove_image(self, reference: str) -> None:
        self.removed.append(reference)

    def close(self) -> None:
        pass


async def failure(client: _Client, folder: Path) -> ServiceError:
    engine = DockerEngine(client)
    build = ImageBuild("task:1", folder, "FROM base", folder / "build.log", network=False)
    try:
        with pytest.raises(ServiceError) as caught:
            await DockerImages(engine).build(build, 10.0)
    finally:
        await engine.close()
    return caught.value


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("The command '/bin/sh -c false' returned a non-zero code: 1", ErrorCode.TASK_INVALID),
        ("The command 'curl x: no such host' returned a non-zero code: 6", ErrorCode.TASK_INVALID),
        ("COPY failed: file not found in build context", ErrorCode.TASK_INVALID),
        ("pull access denied for nothing, repository does not exist", ErrorCode.TASK_INVALID),
        ('Get "https://registry.example/v2/": dial tcp: lookup: no such host', ErrorCode.SANDBOX_FAILED),
        ("toomanyrequests: You have reached your pull rate limit", ErrorCode.SANDBOX_FAILED),
        ("write /layer: no space left on device", ErrorCode.STORAGE_FULL),
    ],
)
async def test_a_failed_build_says_whose_fault_it_is(tmp_path: Path, error: str, code: ErrorCode) -> None:
    found = await failure(_Client([{"stream": "Step 1/2 : FROM base\n"}, {"error": error}]), tmp_path)
    assert found.code is code
    assert error in found.detail
    assert "Step 1/2 : FROM base" in (tmp_path / "build.log").read_text()


async def test_a_file_that_is_no_dockerfile_is_its_authors_fault(tmp_path: Path) -> None:
    found = await failure(_Client([], 400), tmp_path)
    assert found.code is ErrorCode.TASK_INVALID
    assert "unknown instruction: FETCH" in found.detail


async def test_an_engine_that_fails_is_nobodys_task(tmp_path: Path) -> None:
    assert (await failure(_Client([], 500), tmp_path)).code is ErrorCode.SANDBOX_FAILED


@pytest.mark.parametrize(("named", "removed"), [(False, ["0123456789ab"]), (True, [])])
async def test_the_layers_of_a_failed_build_go_but_no_image_with_a_name(
    tmp_path: Path, named: bool, removed: list[str]
) -> None:
    client = _Client([{"stream": " ---> 0123456789ab\n"}, {"error": "COPY failed"}], named=named)
    found = await failure(client, tmp_path)
    assert client.removed == removed
    assert "--->" not in found.detail


async def test_images_are_listed_by_each_name_with_both_sizes_and_their_labels() -> None:
    engine = DockerEngine(_Client([]))
    try:
        found = await DockerImages(engine).named()
    finally:
        await engine.close()
    assert [image.reference for image in found] == ["box:1", "box:2"]
    assert {(image.all_bytes, image.own_bytes) for image in found} == {(300, 100)}
    assert found[0].labels == {"title": "box"}


class _Measuring(_Client):
    """An engine that measures its disk for somebody else, as often as is asked."""

    def __init__(self, times: int) -> None:
        super().__init__([])
        self._times = times

    def df(self) -> dict[str, Any]:
        if self._times:
            self._times -= 1
            response = requests.Response()
            response.status_code = 500
            raise docker.errors.APIError(
                "refused", response=response, explanation="a disk usage operation is already running"
            )
        return super().df()


async def test_an_engine_that_measures_for_somebody_else_is_asked_again() -> None:
    engine = DockerEngine(_Measuring(2))
    try:
        assert await DockerImages(engine).disk_bytes() == 300
    finally:
        await engine.close()


async def test_an_engine_that_measures_for_ever_is_given_up() -> None:
    engine = DockerEngine(_Measuring(10**6))
    try:
        with pytest.raises(ServiceError, match="already running"):
            await DockerImages(engine).disk_bytes(timeout_s=0.6)
    finally:
        await engine.close()
