"""``serve deploy`` on a Ray cluster of the operator's, by the lines of deploy/serve.yaml."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
import yaml

from local_processes.descendants import Descendants
from local_processes.ports import free_port
from sandbox_client import SandboxClient
from sandbox_contract.messages import Message
from tests.harness.serve_status import wait_for_status
from tests.integration.test_service import descendants, listening

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

SHIPPED = Path(__file__).parents[2] / "deploy" / "serve.yaml"
BIN = Path(sys.executable).parent
CLI = [sys.executable, "-c", "from service_cli.commands.app import main; main()"]
MARKER = "SANDBOX_TEST_CLUSTER"

Deploy = Callable[[dict[str, Any]], int]


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[dict[str, str], int]]:
    """A head node in the environment of node-env: the environment, and the dashboard's port.

    Commands in the environment find the cluster by RAY_ADDRESS.
    """
    run = secrets.token_hex(8)
    family = Descendants(MARKER, run)
    with tempfile.TemporaryDirectory(prefix="sd-", dir="/tmp") as folder, family.adopting():
        printed = subprocess.run(
            [*CLI, "node-env", f"{folder}/node"], capture_output=True, text=True, check=True
        ).stdout
        assert all(line.startswith("export ") for line in printed.splitlines())
        script = f"{printed}\nexec {sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
        shell = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        environment = {**json.loads(shell.stdout), MARKER: run}
        dashboard, port = free_port(), free_port()
        words = ["--head", "--include-dashboard=true", "--disable-usage-stats", "--block"]
        words += [f"--port={port}", f"--dashboard-port={dashboard}", f"--temp-dir={folder}/ray"]
        with subprocess.Popen(
            [BIN / "ray", "start", *words],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        ) as head:
            try:
                yield {**environment, "RAY_ADDRESS": f"127.0.0.1:{port}"}, dashboard
            finally:
                family.alive()
                head.terminate()
                family.end_all(10.0)
                head.wait(30)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of the cluster's store: a supervisor outlives a deployment, and keeps what it has opened."""
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/trajectories.sqlite"


@pytest.fixture
def deploy(cluster: tuple[dict[str, str], int], store: str, tmp_path: Path) -> Deploy:
    """Deploy the shipped file with some of its words changed; the port."""
    environment, dashboard = cluster

    def deploy(changed: dict[str, Any]) -> int:
        tree = yaml.safe_load(SHIPPED.read_text())
        tree["http_options"] |= {"port": PORT} | changed.pop("http_options", {})
        arguments = tree["applications"][0]["args"]
        arguments["store"]["url"] = store
        arguments |= {"environments": {"enabled": ["echo"]}, "pool": {"min_boxes": 0}} | changed
        file = tmp_path / "serve.yaml"
        file.write_text(yaml.safe_dump(tree))
        command = [BIN / "serve", "deploy", "-a", f"http://127.0.0.1:{dashboard}", file]
        deadline = time.monotonic() + 120
        while True:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return PORT
            if time.monotonic() > deadline:
                pytest.fail(done.stdout + done.stderr)
            time.sleep(1)

    return deploy


PORT = free_port()
PLAYERS = 4
LIMIT_S = 120.0


def titles() -> Iterator[str]:
    """The command lines of this process's descendants."""
    for pid in descendants():
        with suppress(OSError):
            yield Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")


def test_a_deployed_service_starts_its_supervisor_before_anyone_calls_it(deploy: Deploy):
    deploy({"sandbox": {"kind": "process"}})
    deadline = time.monotonic() + 180
    while not any("ray::SupervisorActor" in title for title in titles()):
        if time.monotonic() > deadline:
            pytest.fail("no supervisor has been started")
        time.sleep(0.2)


def test_a_deployed_service_plays_episodes_and_opens_nothing_to_other_machines(deploy: Deploy):
    port = deploy({"sandbox": {"kind": "process"}})
    url = ready(port)
    with SandboxClient(url) as client, client.episode("echo", "echo-1") as episode:
        episode.step(Message(role="assistant", content="hello"))
        assert episode.evaluate().score == 1.0
    doors = listening(descendants())
    assert ("127.0.0.1", port) in doors
    # The one of a Serve replica, which demands the cluster's token.
    assert [host for host, _ in doors if host != "127.0.0.1"] == ["*"]


def test_an_upgrade_of_gateway_and_supervisor_under_load_loses_no_episode(
    deploy: Deploy, cluster: tuple[dict[str, str], int]
):
    """The procedure of docs/operations.md: deploy again, then replace the supervisor of each node."""
    environment, dashboard = cluster
    port = deploy({"sandbox": {"kind": "process"}})
    url, stopping = ready(port), Event()
    with ThreadPoolExecutor(PLAYERS) as threads:
        players = [threads.submit(play, url, stopping) for _ in range(PLAYERS)]
        try:
            deploy({"sandbox": {"kind": "process"}, "pool": {"min_boxes": 0, "max_boxes": 3}})
            wait_for_status("RUNNING", dashboard, environment, LIMIT_S)
            command = [*CLI, "drain", "--replace", "--timeout", "0", f"server.port={port}"]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            with SandboxClient(url) as client:
                (supervisor,) = client.stats().supervisors
        finally:
            stopping.set()
    # Raises what a player met: an episode that was lost.
    assert all(player.result() for player in players)
    assert [pool.max_boxes for pool in supervisor.pools] == [3]


def test_a_deployed_service_is_checked_on_the_address_that_serve_listens_on(
    deploy: Deploy, cluster: tuple[dict[str, str], int]
):
    """Serve listens on loopback by now; a file that names another address is refused with both."""
    deploy({"sandbox": {"kind": "process"}, "server": {"host": "0.0.0.0", "insecure": True}})
    environment, dashboard = cluster
    said = wait_for_status("DEPLOY_FAILED", dashboard, environment, LIMIT_S)
    assert "Ray Serve listens on 127.0.0.1" in said


def play(url: str, stopping: Event) -> int:
    """Play episodes until the load is to stop; their number. The last one is played to its end."""
    finished = 0
    with SandboxClient(url) as client:
        while not stopping.is_set():
            with client.episode("echo", "echo-10") as episode:
                for index in range(10):
                    episode.step(Message(role="assistant", content=f"says {index}"))
                    # The time in which a model would think.
                    stopping.wait(0.05)
                assert episode.evaluate().score == 1.0
            finished += 1
    return finished


def ready(port: int) -> str:
    """The URL of the service, as soon as it is ready."""
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 120
    while (said := answer(f"{url}/readyz")) != 200:
        if time.monotonic() > deadline:
            pytest.fail(str(said))
        time.sleep(0.2)
    return url


def answer(url: str) -> int | str:
    try:
        return httpx.get(url, timeout=10).status_code
    except httpx.TransportError as error:
        return str(error)
