"""Worlds of small tasks with an agent in a temporary directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox_service.environments.code.box.world import CodeWorld
from sandbox_service.runner.world import Context
from tests.harness.agent import FakeAgent

MakeWorld = Callable[..., CodeWorld]


@pytest.fixture
def make_world(agent: FakeAgent) -> MakeWorld:
    def make(params: dict[str, Any] | None = None, agent: FakeAgent = agent, **changes: Any) -> CodeWorld:
        task = {
            "id": "t",
            "prompt": "Add the numbers in `in.txt`.",
            "files": {"in.txt": "3 4\n"},
            "artifact": "answer.txt",
            "tested": False,
            "bare": False,
            "max_steps": 5,
            "tool_timeout_s": 10.0,
            "max_output_bytes": 2000,
        }
        world = CodeWorld({**task, **changes}, Context("i", 1, params or {}, agent))
        world.start()
        return world

    return make
