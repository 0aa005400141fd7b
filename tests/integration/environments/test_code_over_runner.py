"""Every task of the code environment through a real runner: the reference solves it, nothing does not."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.wire.frames import Op
from tests.harness.mbpp import chosen
from tests.harness.runner_box import runner_box, uid_drop_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.harness.runner_box import RunnerBox

CATALOG = CodeCatalog(CodeConfig())
SUBMIT = [{"role": "assistant", "tool_calls": [{"id": "s", "function": {"name": "submit"}}]}]


@pytest.fixture(scope="module", params=[False, True], ids=["one-user", "own-user-ids"])
def box(request: pytest.FixtureRequest) -> "Iterator[RunnerBox]":
    if request.param and (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with runner_box(CATALOG.spec.world_module, drop=request.param, agent_code=True) as started:
        yield started


def play(box: "RunnerBox", catalog: CodeCatalog, task_id: str, messages: Any) -> dict[str, Any]:
    """One episode; its verdict, which a second evaluation must repeat to the byte."""
    payload = catalog.payload(task_id)
    instance = task_id.replace("/", "-")
    assert box.create(instance, payload.task).op is Op.REPLY
    for message in messages:
        reply = box.request(Op.STEP, instance, meta={"deadline_s": 60}, body={"message": message})
        assert reply.op is Op.REPLY, reply.body
    question = {"params": {}, "grading": payload.grading}
    first, second = (
        box.request(Op.EVALUATE, instance, meta={"deadline_s": 90}, body=question) for _ in range(2)
    )
    assert first.body == second.body
    assert box.release(instance)
    verdict: dict[str, Any] = json.loads(first.body)
    return verdict


@pytest.mark.parametrize("split", ["easy", "medium", "hard"])
def test_references_solve_the_bundled_tasks_and_nothing_does_not(box: "RunnerBox", split: str) -> None:
    for task_id in CATALOG.task_ids(split):
        assert play(box, CATALOG, task_id, CATALOG.reference(task_id))["success"], task_id
        empty = play(box, CATALOG, task_id, SUBMIT)
        assert (empty["score"], empty["success"]) == (0, False), task_id


@pytest.mark.slow
def test_references_solve_humaneval_and_nothing_does_not(box: "RunnerBox") -> None:
    for task_id in CATALOG.task_ids("humaneval"):
        assert play(box, CATALOG, task_id, CATALOG.reference(task_id))["success"], task_id
        assert play(box, CATALOG, task_id, SUBMIT)["score"] == 0, task_id


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_references_solve_mbpp_and_nothing_does_not(box: "RunnerBox") -> None:
    path = os.environ.get("SANDBOX_MBPP_PATH")
    if not path:
        pytest.skip("SANDBOX_MBPP_PATH does not name MBPP's JSONL file")
    catalog = CodeCatalog(CodeConfig(mbpp_path=Path(path)))
    for task_id in chosen(catalog.task_ids("mbpp")):
        assert play(box, catalog, task_id, catalog.reference(task_id))["success"], task_id
        assert play(box, catalog, task_id, SUBMIT)["score"] == 0, task_id
