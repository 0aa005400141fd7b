"""The environment as it was set up on this machine, and episodes of it in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from sandbox_service.config import BfclConfig
from sandbox_service.environments.bfcl.service.catalog import BfclCatalog
from sandbox_service.environments.provisions import find
from sandbox_service.runner.world import Context


@pytest.fixture(scope="session")
def provisions():
    found = find("bfcl")
    if found is None:
        pytest.skip("bfcl is not set up; run sandbox-service envs setup bfcl")
    return found


@pytest.fixture(scope="session")
def catalog(provisions):
    return BfclCatalog(BfclConfig(), provisions)


@pytest.fixture(scope="session")
def engine(provisions):
    """The module that stands for the package's classes; the package is on the path from here on."""
    sys.path.append(str(provisions.packages))
    from sandbox_service.environments.bfcl.box import engine

    return engine


@pytest.fixture(scope="session")
def module(provisions, engine):
    """The world's module, warm."""
    from sandbox_service.environments.bfcl.box import world

    world.warm(str(provisions.data))
    return world


class Play:
    """An episode."""

    def __init__(self, world, payload, start) -> None:
        self.world = world
        self.payload = payload
        self.start = start

    def say(self, content: str):
        return self.world.step({"role": "assistant", "content": content}, 10.0)

    def call(self, *calls: tuple[str, object]):
        listed = [
            {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(calls)
        ]
        return self.world.step({"role": "assistant", "content": None, "tool_calls": listed}, 10.0)

    def all(self, messages):
        return [self.world.step(message, 10.0) for message in messages]

    def verdict(self, **params: Any):
        return self.world.evaluate(params, self.payload.grading)


@pytest.fixture
def play(module, catalog) -> Callable[..., Play]:
    def begin(task_id: str, settings: dict[str, Any] | None = None, **params: Any) -> Play:
        tasks = catalog if settings is None else BfclCatalog(BfclConfig(**settings), catalog.spec.provisions)
        payload = tasks.payload(task_id)
        world = module.WORLD(payload.task, Context("i", 1, params))
        return Play(world, payload, world.start())

    return begin
