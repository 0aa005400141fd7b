import pytest

from sandbox_service.environments.echo.box.world import WORLD
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.runner.world import Context


@pytest.mark.parametrize("task_id", ["echo-1", "echo-10"])
def test_the_reference_reaches_the_full_score(task_id: str) -> None:
    catalog = EchoCatalog()
    payload = catalog.payload(task_id)
    world = WORLD(payload.task, Context("i", 1))
    world.start()
    assert world.evaluate({}, payload.grading).score == 0
    outcomes = [world.step(message, 1.0) for message in catalog.reference(task_id)]
    assert [outcome.terminated for outcome in outcomes] == [False] * (len(outcomes) - 1) + [True]
    assert world.evaluate({}, payload.grading).success


def test_a_message_is_repeated() -> None:
    world = WORLD({"prompt": "Say.", "steps": 2}, Context("i", 1))
    assert world.start().messages == [{"role": "user", "content": "Say."}]
    assert world.step({"role": "assistant", "content": "hi"}, 1.0).messages[0]["content"] == "hi"
    assert world.step({"role": "assistant"}, 1.0).messages[0]["content"] == ""
