"""A real vLLM server in processes of its own, as ``vllm serve`` starts it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from local_processes.ports import free_port
from local_processes.prctl import end_with_parent

__all__ = ["vllm_server"]

_START_S = 480.0
_STOP_S = 30.0
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
}


@contextlib.contextmanager
def vllm_server(model: Path, log: Path, *options: str, context: int = 512) -> Iterator[str]:
    """The address of a server of a model on the CPU while the block runs, under the name ``policy``."""
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", "policy", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", "float32", "--enforce-eager", "--kv-cache-memory-bytes", str(2**27)]
    command += ["--max-model-len", str(context), *options]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=os.environ | _ENVIRONMENT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    try:
        _await(process, f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        time.sleep(0.2)
    raise AssertionError(f"the server did not start: {log.read_text(errors='replace')[-4000:]}")
