"""A Redis server of a test's own, which keeps what Ray's control plane knows."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from local_processes.ports import free_port

STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server on loopback."""

    address: str
    password: str


def redis_program() -> str:
    """Return the program; skip where there is none, and fail where it is required."""
    program = shutil.which("redis-server")
    if program is None:
        reason = "no redis-server here: sh scripts/redis.sh installs it"
        if os.environ.get("CI_REQUIRE_REDIS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return program


@contextlib.contextmanager
def redis_server() -> Iterator[RedisServer]:
    """Run a server with a password while the block runs."""
    program, port, password = redis_program(), free_port(), secrets.token_hex(8)
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        # Settings by standard input, since other users of the machine see arguments.
        settings = f'bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {folder}\nsave ""\n'
        with subprocess.Popen([program, "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            assert process.stdin is not None
            process.stdin.write(settings.encode())
            process.stdin.close()
            try:
                yield RedisServer(f"127.0.0.1:{port}", password)
            finally:
                process.terminate()
                process.wait(STOP_S)
