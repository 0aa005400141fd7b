"""An episode of the reference, and one of nothing, for any task of a catalog."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from sandbox_service.environments.code.box.world import CodeWorld
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.runner.world import Context, JsonObject, Verdict
from tests.harness.agent import FakeAgent

Play = Callable[[CodeCatalog, str, list[JsonObject]], Verdict]


@pytest.fixture
def submit() -> JsonObject:
    """The message of an agent that has done nothing."""
    return {"tool_calls": [{"id": "s", "function": {"name": "submit", "arguments": "{}"}}]}


@pytest.fixture
def play(tmp_path: Path) -> Play:
    numbers = count()

    def run(catalog: CodeCatalog, task_id: str, messages: list[JsonObject]) -> Verdict:
        payload = catalog.payload(task_id)
        agent = FakeAgent(tmp_path / str(next(numbers)))
        try:
            world = CodeWorld(payload.task, Context("i", 1, {}, agent))
            world.start()
            ended = False
            for message in messages:
                assert not ended
                ended = world.step(message, 60.0).terminated
            assert ended
            return world.evaluate({}, payload.grading)
        finally:
            agent.kill()

    return run
