"""Evaluations of a run with an agent: the agent plays the held-out tasks, in real sandboxes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sandbox_conformance.serving import serve
from sandbox_contract.messages import Message
from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from trainer.batches.build import build
from trainer.config.reading import read_run
from trainer.evaluate.results import read_evaluations
from trainer.models import model_folder
from trainer.rollout.scripted import ScriptedPolicy
from trainer.types import EpisodeKey

ROOT = Path(__file__).parents[3]
SPLIT = "arithmetic_test_easy"
TASKS = 4
AGENT = "tests.fakes.agent_functions:loop"
COMMAND = json.dumps([sys.executable, "-m", "tests.fakes.agent_functions", "loop"])


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run names its files from there."""
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("agent", [AGENT, COMMAND], ids=["function", "command"])
async def test_an_evaluation_is_played_by_the_runs_agent(tmp_path: Path, agent: str) -> None:
    words = [f"agent={agent}", f"evaluation.limit={TASKS}", "steps=1", "warm_start=none"]
    run = read_run(Path("deploy/runs/cpu_demo.toml"), words)
    catalog = CodeCatalog(CodeConfig())
    unsolved = set(catalog.task_ids(SPLIT)[::2])

    def answer(key: EpisodeKey) -> Message:
        if key.task.task_id in unsolved:
            return Message(role="assistant", content="I do not know.")
        return Message.model_validate(catalog.reference(key.task.task_id)[key.turn])

    (tmp_path / "logs").mkdir()
    async with serve(catalog, "process") as service:
        producer = await build(
            run,
            tmp_path,
            model_folder(run.model, tmp_path),
            service.client,
            lambda chat: ScriptedPolicy(answer, chat),
        )
        try:
            await producer.evaluate(0)
        finally:
            await producer.close()
    (result,) = read_evaluations(tmp_path / "evaluations.jsonl")
    assert (len(result.tasks), result.failures) == (TASKS, 0)
    assert [each.task_id for each in result.tasks if not each.successes] == [
        each.task_id for each in result.tasks if each.task_id in unsolved
    ]
    assert 0 < result.successes < TASKS
