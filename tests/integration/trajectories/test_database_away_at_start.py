"""A service that starts before its database says so, waits for it, and serves as soon as it is there."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_processes.ports import free_port
from sandbox_client import SandboxClient
from sandbox_contract.messages import Message
from tests.harness import postgres

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.postgres, pytest.mark.timeout(600)]

SERVICE = [sys.executable, "-c", "from service_cli.commands.app import main; main()"]


@pytest.fixture
def database() -> Iterator[dict[str, str]]:
    """The variables of a PostgreSQL server of the test's own, which does not run yet."""
    with tempfile.TemporaryDirectory(prefix="late-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        own = {"SANDBOX_POSTGRES_DIR": f"{folder}/postgres", "SANDBOX_POSTGRES_PORT": str(free_port())}
        try:
            # Made first, so that only its start is between the service and its database.
            postgres.script("start", **own)
        except subprocess.CalledProcessError as error:
            postgres.unavailable(error)
        postgres.script("stop", **own)
        yield own
        postgres.script("stop", **own)


def serve(folder: Path, database: dict[str, str], port: int) -> subprocess.Popen[str]:
    url = f"postgresql+psycopg://sandbox@127.0.0.1:{database['SANDBOX_POSTGRES_PORT']}/sandbox"
    settings = [f"store.url='{url}'", "sandbox.kind=process", f"sandbox.state_dir='{folder}'"]
    settings += ["environments.enabled=['echo']", "pool.max_boxes=1", "fleet.start_timeout_s=300"]
    command = [*SERVICE, "serve", "--port", str(port), *settings]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def line_with(process: subprocess.Popen[str], word: str) -> str:
    """Return the first line of output with a word."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if word in line:
            return line
    raise AssertionError(f"ended without {word!r}: {''.join(said)}")


def test_serve_waits_for_its_database_and_serves_with_it(tmp_path: Path, database: dict[str, str]) -> None:
    port = free_port()
    with serve(tmp_path, database, port) as process:
        try:
            said = line_with(process, "database")
            assert said.startswith("the database does not answer; waiting 300 s for it: ")
            assert "Connection refused" in said
            line_with(process, "starting")
            postgres.script("start", **database)
            began = time.monotonic()
            line_with(process, "ready: ")
            print(f"ready {time.monotonic() - began:.1f} s after the database")  # noqa: T201
            url = f"http://127.0.0.1:{port}"
            with SandboxClient(url) as client, client.episode("echo", "echo-1") as episode:
                episode.step(Message(role="assistant", content="hello"))
                assert episode.evaluate().score == 1.0
        finally:
            process.terminate()
            process.communicate(timeout=120)
