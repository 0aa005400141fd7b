"""The yardstick: a bare FastAPI echo on uvicorn, in a process of its own, on the same machine.

It measures what HTTP and FastAPI alone cost on this machine; the service is reported as a multiple of it.
``/v1/step`` answers every step with the same valid result, to measure a client alone.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from local_processes.ports import free_port
from local_processes.prctl import end_with_parent
from local_processes.waiting import Deadline, wait_until
from sandbox_contract.base import JsonObject  # noqa: TC001 - FastAPI reads the annotations

from .load import Target

if TYPE_CHECKING:
    from fastapi import FastAPI


_START_S = 30.0
_STOP_S = 5.0
_STEP_RESULT: JsonObject = {
    "instance_id": "yardstick",
    "step_index": 0,
    "observation": {"messages": [{"role": "user", "content": "step 0"}]},
    "reward": 0.0,
    "terminated": False,
    "truncated": False,
}


def build_echo() -> FastAPI:
    """Return the application, which answers with the JSON that it gets."""
    from fastapi import FastAPI

    app = FastAPI()

    @app.post("/echo")
    async def echo(body: JsonObject) -> JsonObject:
        return body

    @app.post("/v1/step")
    async def step(body: JsonObject) -> JsonObject:
        return _STEP_RESULT

    return app


@contextmanager
def running_yardstick() -> Iterator[Target]:
    """Run the echo in a process of its own and yield its address."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "service_cli.bench.yardstick", str(port)],
        preexec_fn=end_with_parent,  # PDEATHSIG: a killed benchmark leaves no server behind
    )
    try:
        _wait_until_open(port, process)
        yield Target("127.0.0.1", port)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_open(port: int, process: subprocess.Popen[bytes]) -> None:
    def listens() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"the yardstick ended with status {process.returncode}")
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    if not wait_until(listens, Deadline.after(_START_S), poll_s=0.05):
        raise RuntimeError(f"the yardstick did not listen on port {port} within {_START_S:g} s")


def main(port: int) -> None:
    """Serve the echo."""
    import uvicorn

    uvicorn.run(
        build_echo(),
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
