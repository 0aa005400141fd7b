"""Create and step instances of a traced service, and note when each call began and ended."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .commands import PathsError, Running, deadline, tail

START_S, READY_S = 540, 600.0
"""Long, because the trace and a busy machine make a start slow."""
CREATES, WARM_CREATES = 12, 4
STEPS = 6
"""Measured steps of an instance: neither its first nor the last, which ends the episode."""
TASK = "echo-10"
SETTLE_S = 0.05
"""A window is longer than its call by this, for what the service does after its answer."""
Windows = dict[str, list[tuple[int, int]]]

_CONFIG = """
[server]
port = {port}
haproxy = false
api_keys = {{ {keys} }}
[sandbox]
kind = "process"
state_dir = "{folder}/s"
[store]
url = "sqlite:///{folder}/trajectories.sqlite"
[fleet]
start_timeout_s = {start_s}
[environments]
enabled = ["{environment}"]
"""


def service_windows(running: Running, scratch: Path) -> tuple[Windows, list[str]]:
    """Return the windows of creates, steps and idle time, and the logs of the boxes' runners.

    Raises PathsError if the service does not start, or refuses a call.
    """
    # Short: the path of a box's socket has a bound.
    with running_service(running, scratch, "echo", keyed=True) as (connection, log):
        windows: Windows = {"create": [], "step": [], "idle": []}
        for number in range(WARM_CREATES + CREATES):
            begun, created = _timed(connection, "create_instance", {"environment": "echo", "task_id": TASK})
            instance_id = created["instance_id"]
            if number >= WARM_CREATES:
                windows["create"].append(begun)
                windows["step"] += list(_steps(connection, instance_id))
            connection.call("release_instance", {"instance_id": instance_id})
            time.sleep(2 * SETTLE_S)
        windows["idle"] += [_idle(windows["step"]) for _ in range(CREATES)]
        running.note_processes()
        logs = [path.read_text(errors="replace") for path in (scratch / "s").rglob("runner.log")]
    if not any(logs):
        raise PathsError(f"no runner of a box wrote a record to its log, where its trace goes:\n{tail(log)}")
    return windows, logs


def _steps(connection: Connection, instance_id: str) -> Iterator[tuple[int, int]]:
    for index in range(STEPS + 1):
        message = {"role": "assistant", "content": f"hello {index}"}
        body = {"instance_id": instance_id, "message": message, "step_index": index}
        window, result = _timed(connection, "step", body)
        if result["terminated"] or result["truncated"]:
            raise PathsError(f"{TASK} ended at step {index}, before all steps were measured")
        if index > 0:
            yield window


def _timed(connection: Connection, verb: str, body: dict[str, Any]) -> tuple[tuple[int, int], dict[str, Any]]:
    time.sleep(SETTLE_S)
    begun = time.monotonic_ns()
    result = connection.call(verb, {**body, "idempotency_key": secrets.token_hex(16)})
    time.sleep(SETTLE_S)
    return (begun, time.monotonic_ns()), result


def _idle(like: list[tuple[int, int]]) -> tuple[int, int]:
    """Wait as long as the median of the windows."""
    lengths = sorted(end - begun for begun, end in like)
    begun = time.monotonic_ns()
    time.sleep(lengths[len(lengths) // 2] / 1e9)
    return begun, time.monotonic_ns()


class Connection:
    """One kept-alive connection to a service."""

    def __init__(self, port: int, key: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def call(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """Call a verb and return its result. Raises PathsError if it is refused."""
        self._http.request("POST", f"/v1/{verb}", json.dumps(body).encode(), self._headers)
        answer = self._http.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise PathsError(f"{verb} was answered {answer.status}: {content.decode(errors='replace')[:300]}")
        result: dict[str, Any] = json.loads(content)
        return result

    def ready(self) -> bool:
        """Return whether the service answers and says that it is ready."""
        try:
            self._http.request("GET", "/readyz")
            answer = self._http.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self._http.close()
            return False
        return answer.status == 200


@contextlib.contextmanager
def running_service(
    running: Running, folder: Path, environment: str, *, keyed: bool
) -> Iterator[tuple[Connection, Path]]:
    """Start a service with process boxes, and wait until it is ready; also yields the path of its log."""
    key = secrets.token_hex(16)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config, log = folder / "service.toml", folder / "service.log"
    keys = f'"{hashlib.sha256(key.encode()).hexdigest()}" = "measured"' if keyed else ""
    text = _CONFIG.format(port=port, keys=keys, folder=folder, environment=environment, start_s=START_S)
    config.write_text(text, encoding="utf-8")
    with running.started("sandbox-service", ["serve", "--config", str(config)], log) as process:
        connection = Connection(port, key)
        _await(connection, process, log)
        yield connection, log


def _await(connection: Connection, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in deadline(READY_S):
        if process.poll() is not None:
            raise PathsError(f"the service ended while it started:\n{tail(log)}")
        if connection.ready():
            return
    raise PathsError(f"the service was not ready after {READY_S:g} s:\n{tail(log)}")
