"""Supervisors over fakes, each with its own connection to one database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from sandbox_contract.problems import ErrorCode
from sandbox_service.config import StoreConfig
from sandbox_service.stream.failures import error_of
from sandbox_service.trajectories.store import SqlTrajectoryStore, open_store
from sandbox_service.wire.frames import Frame, Op
from tests.fakes.clock import FakeClock
from tests.fakes.sandboxes import FakeSandboxFactory

from .supervised import Supervised, fake_config

__all__ = ["Node", "Nodes", "nodes_of_one_database"]


class Node:
    """A supervisor with its own connection to the database."""

    def __init__(self, url: str, name: str) -> None:
        self.name, self.url = name, url
        self.config = StoreConfig(url=url, lease_s=600)
        self.store: SqlTrajectoryStore = open_store(self.config)
        self.service = Supervised(
            fake_config(store=self.config),
            FakeSandboxFactory(),
            self.store,  # type: ignore[arg-type]
            FakeClock(),
            name,
        )

    async def ask(self, op: Op, instance: str, content: str = "hello", **meta: Any) -> Frame:
        body = {"instance_id": instance, "message": {"role": "assistant", "content": content}}
        return await self.service.call(op, instance, body, **meta)

    async def refusal(self, op: Op, instance: str, **meta: Any) -> ErrorCode:
        return error_of(await self.ask(op, instance, **meta)).code

    async def close(self) -> None:
        await self.service.core.close()
        await self.store.close()


Nodes = Callable[[str], Awaitable[Node]]


@asynccontextmanager
async def nodes_of_one_database(folder: Path) -> AsyncIterator[Nodes]:
    """A function that starts a supervisor of a name; all are closed at the end."""
    async with AsyncExitStack() as stack:

        async def start(name: str) -> Node:
            node = Node(f"sqlite:///{folder}/shared.sqlite", name)
            await node.service.core.start()
            stack.push_async_callback(node.close)
            return node

        yield start
