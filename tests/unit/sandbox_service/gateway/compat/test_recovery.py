"""Clients of the compatible protocols count no steps: an instance that may lack some is an error for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from sandbox_conformance.backend import SupervisorBackend
from sandbox_service.config import ServerConfig
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.environments.registry import Registry
from sandbox_service.gateway.app import build_app
from tests.fakes.agentgym_clients import BabyAI, WebShop
from tests.fakes.clock import FakeClock
from tests.fakes.games import game_registry
from tests.fakes.sandboxes import FakeSandboxFactory
from tests.fakes.trajectories import MemoryTrajectoryStore
from tests.harness.supervised import Supervised, fake_config, killed


@asynccontextmanager
async def fast_supervisor(registry: Registry) -> AsyncIterator[Supervised]:
    """A supervisor that may lose answered steps when it is killed."""
    store = MemoryTrajectoryStore()
    store.complete = False
    service = Supervised(fake_config(), FakeSandboxFactory(), store, FakeClock(), registry=registry)
    await service.core.start()
    yield service


def gateway(service: Supervised) -> httpx.AsyncClient:
    app = build_app(ServerConfig(), service.registry, SupervisorBackend([service.core]))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost")


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("route", ["step", "evaluate", "get_info"])
async def test_every_call_of_agentscope_is_an_error_until_the_instance_is_released(route: str, lost: int):
    async with fast_supervisor(Registry({"echo": EchoCatalog()})) as service, gateway(service) as http:
        made = await http.post("/create", json={"env_type": "echo", "task_id": "echo-10"})
        body = {
            "instance_id": made.json()["data"]["info"]["instance_id"],
            "messages": {"role": "assistant", "content": "hello"},
        }
        for _ in range(3):
            assert (await http.post("/step", json=body)).status_code == 200
        restarted = await killed(service, lost=lost)
    async with gateway(restarted) as http:
        for _ in range(2):
            reply = await http.post(f"/{route}", json=body)
            assert (reply.status_code, list(reply.json())) == (409, ["detail"])
            assert f"recovered at step {3 - lost}" in reply.json()["detail"]
        assert (await http.post("/release", json=body)).json()["success"] is True
    await restarted.core.close()


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize(
    ("kind", "action", "route"),
    [
        (BabyAI, "Action: go north", "step"),
        (BabyAI, "Action: go north", "observation"),
        (WebShop, "Action: click[Buy Now]", "state"),
    ],
)
async def test_every_call_of_agentgym_is_an_error_until_the_environment_is_reset(kind, action, route, lost):
    async with fast_supervisor(game_registry(kind.name)) as service, gateway(service) as http:
        client = kind(http)
        await client.make()
        await client.reset(2)
        for _ in range(2):
            await client.step(action)
        restarted = await killed(service, lost=lost)
    async with gateway(restarted) as http:
        client.http = http
        sent = {client.id_field: client.env_id}
        for _ in range(2):
            if route == "step":
                reply = await http.post(f"{client.base}/step", json={**sent, "action": action})
            else:
                reply = await http.get(f"{client.base}/{route}", params=sent)
            failure = reply.json()
            assert (failure["code"], failure["failure_class"]) == ("instance_recovered", "sandbox")
        await client.reset(2)
        assert "Leave the corridor of 3" in await client.observe()
    await restarted.core.close()
