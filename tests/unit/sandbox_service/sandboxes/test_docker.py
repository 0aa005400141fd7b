"""The engine's description, the log of an image's build, and an engine that does not answer."""

from __future__ import annotations

import io
import socketserver
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
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


class _SilentEngine(BaseHTTPRequestHandler):
    """Says its version, and nothing to a POST until the test is over."""

    over: threading.Event

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"ApiVersion": "1.41"}')

    def do_POST(self) -> None:
        self.over.wait()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def silent_engine(tmp_path: Path) -> Iterator[str]:
    class Engine(_SilentEngine):
        over = threading.Event()

    address = str(tmp_path / "engine.sock")
    with socketserver.ThreadingUnixStreamServer(address, Engine) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"unix://{address}"
        Engine.over.set()
        server.shutdown()


CALLS = """
import asyncio, io, sys
from pathlib import Path
from sandbox_service.errors import ServiceError
from sandbox_service.sandboxes.docker import DockerEngine
from sandbox_service.sandboxes.docker_images import DockerImages, ImageBuild
address, folder, call = sys.argv[1], Path(sys.argv[2]), sys.argv[3]

async def run():
    engine = await DockerEngine.connect(address, 60.0)
    log = folder / "box.log"

    async def build_for_a_task():
        built = DockerImages(engine).build(
            ImageBuild("box:1", None, "FROM scratch", log, network=False), 600.0
        )
        await asyncio.wait_for(built, 2.0)

    calls = {
        "build": lambda: engine.build(io.BytesIO(), "box:1", {}, 0.5, log=log, labels={}),
        "pull": lambda: engine.pull("box", "1", 0.5, 600.0),
        "import": lambda: engine.load_tree(__file__, "box", "1", 0.5),
        "build a task's image": build_for_a_task,
    }
    try:
        await calls[call]()
    except (ServiceError, TimeoutError) as error:
        print(type(error).__name__)
    finally:
        await engine.close()

asyncio.run(run())
"""


@pytest.mark.parametrize("call", ["build", "pull", "import", "build a task's image"])
def test_the_process_ends_although_the_engine_never_answers(
    silent_engine: str, tmp_path: Path, call: str
) -> None:
    program = tmp_path / "program.py"
    program.write_text(CALLS)
    command = [sys.executable, str(program), silent_engine, str(tmp_path), call]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert ended.stdout.split() == ["TimeoutError" if call == "build a task's image" else "ServiceError"]
