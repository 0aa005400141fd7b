"""The request log: failures, a sample of the rest, never bodies."""

from __future__ import annotations

import logging

import httpx
import pytest

from sandbox_service.config import ServerConfig
from sandbox_service.gateway.app import build_app
from sandbox_service.wire.frames import Op
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import make_registry

BODY = {"instance_id": "nobody", "message": {"role": "assistant", "content": "very private"}}


async def requests(backend: EchoBackend, log_every: int, count: int) -> None:
    app = build_app(ServerConfig(), make_registry(), backend, log_every=log_every)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://localhost"
    ) as client:
        for _ in range(count):
            await client.post("/v1/get_env_profile", json={"environment": "echo"})


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [record.msg for record in caplog.records if isinstance(record.msg, dict)]


@pytest.mark.parametrize(("log_every", "lines_written"), [(0, 0), (1, 4), (2, 2)])
async def test_successes_are_sampled(caplog, log_every, lines_written):
    caplog.set_level(logging.INFO)
    await requests(EchoBackend(), log_every, 4)
    assert len(lines(caplog)) == lines_written


async def test_failures_are_logged_with_what_finds_them_and_without_bodies(caplog, client):
    caplog.set_level(logging.INFO)
    await client.post("/v1/step", json=BODY, headers={"X-Request-Id": "r-1"})
    (line,) = lines(caplog)
    wanted = {
        "event": "request_served",
        "request_id": "r-1",
        "tenant": "local",
        "method": "POST",
        "route": "/v1/step",
        "instance_id": "nobody",
        "status": 404,
        "code": "unknown_instance",
    }
    assert wanted.items() <= line.items()
    assert "private" not in str(line)


async def test_a_defects_traceback_goes_to_the_log_and_not_to_the_caller(caplog, client, backend):
    backend.failures[Op.STEP] = RuntimeError("inside")
    reply = await client.post("/v1/step", json=BODY)
    assert "inside" not in reply.text
    assert [line["event"] for line in lines(caplog)] == ["defect", "request_served"]
    assert lines(caplog)[0]["request_id"] == reply.json()["request_id"]
