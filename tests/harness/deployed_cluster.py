"""A Ray cluster of several nodes on this machine, with a token and a dashboard, for ``serve deploy``.

Its nodes start as docs/operations.md says, each in the environment of ``node-env`` and with its own host
name. Their fronts listen at one port, between which the kernel divides the connections.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil
import ray
import yaml

from local_processes.descendants import Descendants
from local_processes.ports import free_port
from local_processes.waiting import Deadline, wait_until

from .redis_server import RedisServer
from .serve_status import wait_for_status

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "deploy" / "serve.yaml"
BIN = Path(sys.executable).parent
CLI = [sys.executable, "-c", "from service_cli.commands.app import main; main()"]
MARKER = "SANDBOX_TEST_CLUSTER"
RESOURCE = "sandbox_node"
"""Custom resource of the nodes that get a supervisor."""
SUPERVISOR = "ray::SupervisorActor"
GATEWAY = "ray::ServeReplica"
WAIT_S = 180.0
GIVEN_UP = "timed out during startup"
"""Ray allows a node's start 30 s, too few beside other tests."""


class ClusterNode:
    """A node, and the command that runs it."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]], log: Path) -> None:
        self._start, self._log = start, log
        self._begin = log.stat().st_size if log.exists() else 0
        self.process = start()

    def start_again_if_given_up(self) -> None:
        """Start it again, as systemd does, if Ray gave its start up."""
        if self.process.poll() and GIVEN_UP in self._log.read_text()[self._begin :]:
            self._begin = self._log.stat().st_size
            self.process = self._start()

    def pids(self) -> list[int]:
        """Return the processes of the node, the command first."""
        command = psutil.Process(self.process.pid)
        return [command.pid, *(child.pid for child in command.children(recursive=True))]

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self.process.terminate()
        return self.process.wait(WAIT_S)

    def kill(self) -> None:
        """Kill all processes of the node at once, as the loss of its machine would."""
        pids = self.pids()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        self.process.wait(WAIT_S)

    def kill_supervisor(self) -> None:
        """Kill the supervisor of the node."""
        (pid,) = [pid for pid in self.pids() if _title(pid).startswith(SUPERVISOR)]
        os.kill(pid, signal.SIGKILL)

    def kill_control_plane(self) -> None:
        """Kill the process of Ray's control plane (GCS) alone, and wait until the node has ended."""
        (gcs,) = [pid for pid in self.pids() if psutil.Process(pid).name() == "gcs_server"]
        os.kill(gcs, signal.SIGKILL)
        self.process.wait(WAIT_S)


class DeployedCluster:
    """The nodes, and the service that is deployed on them."""

    def __init__(self, folder: Path, run: str) -> None:
        self._folder = folder
        self._run = run
        self._gcs, self._dashboard, self.port = free_port(), free_port(), free_port()
        self.nodes: list[ClusterNode] = []
        """All that were started."""
        self._environments: dict[str, dict[str, str]] = {}

    @property
    def address(self) -> str:
        """Return the address that nodes join."""
        return f"{ray.util.get_node_ip_address()}:{self._gcs}"

    @property
    def url(self) -> str:
        """Return the URL of the service."""
        return f"http://127.0.0.1:{self.port}"

    def start_head(self, redis: RedisServer | None = None, *, sandboxes: bool) -> ClusterNode:
        """Start the head, with a supervisor or without, and wait for its dashboard; the same ports again."""
        words = [
            "--head",
            "--include-dashboard=true",
            f"--port={self._gcs}",
            f"--temp-dir={self._folder}/ray",
        ]
        words += [f"--dashboard-port={self._dashboard}", f"--ray-client-server-port={free_port()}"]
        # By this file and the other nodes' processes Ray would take the former head for a running one.
        (self._folder / "ray" / "ray_current_cluster").unlink(missing_ok=True)
        environment = self.environment("head")
        if redis is not None:
            environment["RAY_REDIS_ADDRESS"] = redis.address
            words.append(f"--redis-password={redis.password}")
        node = self._start("head", words, {RESOURCE: 1} if sandboxes else {}, environment, [])
        url = f"http://127.0.0.1:{self._dashboard}/api/gcs_healthz"
        assert wait_until(lambda: answer(url) == 200, Deadline.after(WAIT_S), poll_s=0.2), "no head"
        return node

    def add_node(self, host: str, config: Path | None = None, **variables: str) -> ClusterNode:
        """Start a sandbox node; with the service's settings it empties itself when it gets SIGTERM."""
        around = [] if config is None else [*CLI, "node", "--config", str(config), "--"]
        environment = {**self.environment(host), **variables}
        return self._start(host, [f"--address={self.address}"], {RESOURCE: 1}, environment, around)

    def environment(self, host: str) -> dict[str, str]:
        """Return the environment of a node's processes and of an operator there."""
        if host not in self._environments:
            self._environments[host] = self._new_environment(host)
        return dict(self._environments[host])

    def _new_environment(self, host: str) -> dict[str, str]:
        folder = self._folder / host
        if host != "head" and not folder.exists():
            folder.mkdir(mode=0o700)
            shutil.copy(self._folder / "head" / "token", folder)
        command = [*CLI, "node-env", "--cluster", str(folder)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        script = f"{printed}\nexec {sys.executable} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
        shell = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        known: dict[str, str] = json.loads(shell.stdout)
        own = {MARKER: self._run, "PYTHONPATH": f"{ROOT}:{ROOT / 'clients'}"}
        return {**known, **own, "SERVE_SOCKET_REUSE_PORT_ENABLED": "1"}

    def write_settings(self, tree: Mapping[str, Mapping[str, Any]]) -> Path:
        """Write the service's settings for the commands of operators and nodes."""
        lines = []
        for branch, fields in tree.items():
            lines += [f"[{branch}]", *(f"{name} = {json.dumps(value)}" for name, value in fields.items())]
        file = self._folder / "service.toml"
        file.write_text("\n".join(lines))
        return file

    def operate(self, *words: str) -> None:
        """Run a command of the service on the head; fail when it fails."""
        environment = self.environment("head")
        done = subprocess.run([*CLI, *words], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def deploy(self, arguments: Mapping[str, Any]) -> None:
        """Deploy the shipped file with other settings, again while the dashboard is not ready."""
        tree = yaml.safe_load(SHIPPED.read_text())
        tree["http_options"]["port"] = self.port
        tree["applications"][0]["args"] = dict(arguments)
        file = self._folder / "serve.yaml"
        file.write_text(yaml.safe_dump(tree))
        deadline = Deadline.after(WAIT_S)
        while (done := self._serve_deploy(file)).returncode:
            assert not deadline.passed, done.stdout + done.stderr
            time.sleep(1)

    def wait_running(self) -> None:
        """Wait until all that is deployed runs."""
        wait_for_status("RUNNING", self._dashboard, self.environment("head"), WAIT_S)

    def wait_ready(self, supervisors: int = 1) -> None:
        """Wait until the service takes instances on so many nodes."""
        deadline = Deadline.after(WAIT_S)
        while (found := self._supervisors()) != supervisors:
            for node in self.nodes:
                node.start_again_if_given_up()
            assert not deadline.passed, f"{found} supervisors, {self._get('/readyz')}{self._last_words()}"
            time.sleep(0.2)

    def gateways(self) -> set[int]:
        """Return the processes of the gateway's replicas."""
        running = [node for node in self.nodes if node.process.poll() is None]
        return {pid for node in running for pid in node.pids() if _title(pid).startswith(GATEWAY)}

    def wait_replaced(self, gateways: set[int]) -> None:
        """Wait until all of these replicas have ended."""
        deadline = Deadline.after(WAIT_S)
        while left := gateways & self.gateways():
            assert not deadline.passed, left
            time.sleep(0.5)

    def wait_metric(self, name: str) -> None:
        """Wait until a gateway shows a metric."""
        deadline = Deadline.after(WAIT_S)
        while not any(line.startswith(name) for line in self._get("/metrics").splitlines()):
            assert not deadline.passed, name
            time.sleep(0.5)

    def _last_words(self) -> str:
        """Return how the nodes' processes are, and the last lines of their logs and of their raylets'."""
        codes = [node.process.poll() for node in self.nodes]
        logs = [*self._folder.glob("*.log"), *self._folder.glob("ray/session_2*/logs/raylet*.out")]
        tails = ("\n".join([f"-- {log.name}", *log.read_text().splitlines()[-8:]]) for log in logs)
        return "\n".join([f", exit codes of the nodes: {codes}", *tails])

    def _get(self, path: str) -> str:
        """Return the body of a successful answer, else nothing."""
        try:
            reply = httpx.get(f"{self.url}{path}", timeout=10)
        except httpx.TransportError:
            return ""
        return reply.text if reply.is_success else ""

    def _supervisors(self) -> int:
        """Return the number of supervisors that a gateway reaches and that take instances."""
        known = json.loads(self._get("/v1/stats") or '{"supervisors": []}')
        return sum(not each["draining"] for each in known["supervisors"])

    def _serve_deploy(self, file: Path) -> subprocess.CompletedProcess[str]:
        command = [str(BIN / "serve"), "deploy", "-a", f"http://127.0.0.1:{self._dashboard}", str(file)]
        environment = {**self.environment("head"), "RAY_ADDRESS": self.address}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def _start(
        self,
        host: str,
        words: list[str],
        resources: Mapping[str, float],
        environment: Mapping[str, str],
        around: list[str],
    ) -> ClusterNode:
        command = [*around, str(BIN / "ray"), "start", *words, "--block", "--disable-usage-stats"]
        command += ["--object-store-memory=83886080", f"--resources={json.dumps(resources)}"]
        command += [f"--dashboard-agent-listen-port={free_port()}", "--num-cpus=1"]
        named = ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh", *command]
        file = self._folder / f"{host}.log"

        def start() -> subprocess.Popen[bytes]:
            with file.open("a") as log:
                return subprocess.Popen(named, env=dict(environment), stdout=log, stderr=log)

        self.nodes.append(ClusterNode(start, file))
        return self.nodes[-1]


@contextlib.contextmanager
def deployed_cluster() -> Iterator[DeployedCluster]:
    """Keep the nodes that the block starts until its end."""
    run = secrets.token_hex(8)
    family = Descendants(MARKER, run)
    with (
        tempfile.TemporaryDirectory(prefix="sd-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        family.adopting(),
    ):
        cluster = DeployedCluster(Path(folder), run)
        try:
            yield cluster
        finally:
            family.alive()
            family.end_all(0.0)
            for node in cluster.nodes:
                node.process.wait(WAIT_S)


def _title(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.NoSuchProcess:
        return ""


def answer(url: str) -> int | str:
    """Return the status of an answer, or why there is none."""
    try:
        return httpx.get(url, timeout=10).status_code
    except httpx.TransportError as error:
        return str(error)
