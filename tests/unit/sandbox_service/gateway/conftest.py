"""A gateway over an in-memory fleet for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.fakes.backend import EchoBackend
from tests.harness.gateway import make_client


@pytest.fixture
def backend() -> EchoBackend:
    return EchoBackend()


@pytest.fixture
async def client(backend: EchoBackend) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client(backend) as client:
        yield client


@pytest.fixture
async def instance(client: httpx.AsyncClient) -> str:
    reply = await client.post("/v1/create_instance", json={"environment": "echo", "task_id": "echo-10"})
    return str(reply.json()["instance_id"])
