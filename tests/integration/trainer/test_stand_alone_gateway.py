"""``sandbox-trainer gateway`` as a process, over a server that speaks vLLM's routes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import httpx
import pytest

from tests.fakes.vllm_server import FakeVllmServer
from tests.harness.tiny_chat import tiny_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ADMIN = {"Authorization": "Bearer hush"}
_RUN = "import trainer.cli.app; trainer.cli.app.main()"
START_S = 200
STOP_S = 60


@contextlib.asynccontextmanager
async def gateway(engine: str, *words: str):
    """The command, when it says that it is ready; it is killed if the block leaves it running."""
    command = [sys.executable, "-c", _RUN, "gateway", str(tiny_folder()), *words]
    process = await asyncio.create_subprocess_exec(
        *command, "--engine", engine, "--port", "0", stdout=PIPE, stderr=PIPE,
        env=os.environ | {"MODEL_GATEWAY_ADMIN_KEY": "hush"},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ready(process: Process) -> str:
    """The address at which it listens."""
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), START_S)
    assert line.startswith(b"ready: "), line
    return line.decode().split()[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_command_serves_agents_and_ends_and_exports_all_sessions_when_it_is_stopped(
    tmp_path: Path, number: signal.Signals
) -> None:
    export = tmp_path / "sessions.jsonl"
    fake = FakeVllmServer(version="3")
    async with fake.serving() as engine, gateway(engine, "--export", str(export)) as process:
        url = await ready(process)
        async with httpx.AsyncClient(base_url=url, timeout=30) as http:
            answer = await http.post("/sessions", json={"limits": {"turn_tokens": 4}}, headers=ADMIN)
            session = answer.json()
            key = {"Authorization": f"Bearer {session['api_key']}"}
            body = {"model": "any", "messages": [{"role": "user", "content": "Hi"}]}
            called = await http.post("/v1/chat/completions", json=body, headers=key)
            assert called.status_code == 200, called.text
        process.send_signal(number)
        _, printed = await asyncio.wait_for(process.communicate(), STOP_S)
        assert process.returncode == 0, printed
        assert b"stopping ...\nstopped\n" in printed
        assert b"hush" not in printed
    (line,) = export.read_text().splitlines()
    recording = json.loads(line)
    assert (recording["id"], recording["state"]) == (session["id"], "stopped")
    (sequence,) = recording["sequences"]
    assert sum(sequence["loss_mask"]) == 4
    assert [span["version"] for turn in sequence["turns"] for span in turn["versions"]] == [3]


async def test_a_server_with_another_tokenizer_is_refused() -> None:
    fake = FakeVllmServer(tokenizer=lambda text: [1, 2, 3])
    async with fake.serving() as engine, gateway(engine) as process:
        _, printed = await asyncio.wait_for(process.communicate(), START_S)
        assert process.returncode == 2
        assert b"the tokenizer of" in printed
