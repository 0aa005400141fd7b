"""The engine's description, and the log of an image's build."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.docker import DockerEngine

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Client:
    """Answers as the engine's API does: with lines of output."""

    def __init__(self, *lines: dict[str, str]) -> None:
        self._lines = lines
        self.labels: dict[str, str] = {}

    def build(self, *, labels: dict[str, str], **_: Any) -> Iterator[dict[str, str]]:
        self.labels = labels
        yield from self._lines

    def close(self) -> None:
        pass


async def build(client: _Client, log: Path) -> None:
    engine = DockerEngine(client)
    try:
        await engine.build(io.BytesIO(), "box:1", {}, 10.0, log=log, labels={"title": "box"})
    finally:
        await engine.close()


async def test_the_output_of_a_build_is_in_its_log_and_that_of_an_earlier_one_is_not(tmp_path: Path) -> None:
    log = tmp_path / "new" / "box.log"
    await build(_Client({"stream": "Step 1/1 : FROM scratch\n"}), log)
    await build(_Client({"stream": "Step 1/1 : FROM base\n"}, {"stream": "Successfully built\n"}), log)
    assert log.read_text() == "Step 1/1 : FROM base\nSuccessfully built\n"


async def test_an_image_gets_the_labels_of_its_build(tmp_path: Path) -> None:
    client = _Client({"stream": "Successfully built\n"})
    await build(client, tmp_path / "box.log")
    assert client.labels == {"title": "box"}


async def test_a_failed_build_ends_its_log_with_the_failure(tmp_path: Path) -> None:
    lines = ({"stream": "Step 1/1 : COPY a b\n"}, {"error": "COPY failed"})
    with pytest.raises(ServiceError, match=r"COPY failed \(Step 1/1 : COPY a b\)"):
        await build(_Client(*lines), tmp_path / "box.log")
    assert (tmp_path / "box.log").read_text() == "Step 1/1 : COPY a b\nCOPY failed\n"


async def test_a_build_whose_log_cannot_be_written_goes_on_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    await build(_Client({"stream": "Successfully built\n"}), tmp_path / "file" / "box.log")
    await build(_Client({"stream": "Successfully built\n"}), Path("/dev/full"))


class _DescribedClient(_Client):
    """An engine with a description."""

    def __init__(self, **flags: bool) -> None:
        super().__init__()
        self._flags = flags

    def info(self) -> dict[str, Any]:
        return {"ServerVersion": "29.0.0", **self._flags}

    def version(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize(
    ("flags", "unbounded"),
    [
        ({"MemoryLimit": True, "SwapLimit": True, "PidsLimit": True, "CpuCfsQuota": True}, ()),
        ({"MemoryLimit": False, "SwapLimit": False, "PidsLimit": True}, ("memory", "swap")),
        ({"PidsLimit": False, "CpuCfsQuota": False}, ("processes", "CPU")),
        ({}, ()),
    ],
)
async def test_an_engine_says_which_limits_it_drops(
    flags: dict[str, bool], unbounded: tuple[str, ...]
) -> None:
    engine = DockerEngine(_DescribedClient(**flags))
    try:
        assert (await engine.engine_info()).unbounded == unbounded
    finally:
        await engine.close()
