"""A gateway over the in-memory fleet, and an HTTP client that speaks to it without a socket."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import httpx
from pydantic import JsonValue

from sandbox_contract.inspection import Environment
from sandbox_contract.messages import FunctionSchema, Tool
from sandbox_service.config import ServerConfig
from sandbox_service.environments.base import EnvironmentSpec, TaskPayload
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.environments.registry import Registry
from sandbox_service.gateway.app import build_app
from tests.fakes.backend import EchoBackend


class ToolCatalog:
    """Echo's tasks under another name, with a tool and a declared parameter."""

    def __init__(self) -> None:
        self._echo = EchoCatalog()
        self.spec: EnvironmentSpec = self._echo.spec

    def describe(self) -> Environment:
        function = FunctionSchema(name="shout", description="Say it louder.")
        params: dict[str, JsonValue] = {"type": "object", "properties": {"volume": {"type": "integer"}}}
        update = {"name": "tools", "tools": (Tool(function=function),), "params": params}
        return self._echo.describe().model_copy(update=update)

    def task_ids(self, split: str) -> Sequence[str]:
        return self._echo.task_ids(split)

    def payload(self, task_id: str) -> TaskPayload:
        return self._echo.payload(task_id)

    def reference(self, task_id: str) -> Sequence[dict[str, JsonValue]]:
        return self._echo.reference(task_id)


def make_registry() -> Registry:
    """The two environments that the in-memory fleet serves."""
    return Registry({"echo": EchoCatalog(), "tools": ToolCatalog()})


def digest(key: str) -> str:
    """A key as the configuration holds it."""
    return hashlib.sha256(key.encode()).hexdigest()


def make_client(
    backend: EchoBackend, config: ServerConfig | None = None, headers: dict[str, str] | None = None
) -> httpx.AsyncClient:
    """A client of a gateway over ``backend``."""
    app = build_app(config or ServerConfig(), make_registry(), backend)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)
