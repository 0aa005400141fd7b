"""Solutions that cheat: none may pass a single test, and none may harm the grader or its instance."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.runner.frames import Op
from tests.support.cheats import CHEATING_TASK, CHEATS
from tests.support.runner_box import runner_box, uid_drop_missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.runner_box import RunnerBox

WORLD = "sandbox_service.environments.code.world"
HONEST = "def solve(data):\n    return sorted(data)\n"
TASK = {
    "prompt": "Sort.",
    "files": {},
    "artifact": "solution.py",
    "tested": True,
    "bare": False,
    "max_steps": 9,
    "tool_timeout_s": 10.0,
    "max_output_bytes": 1000,
}


@pytest.fixture(scope="module", params=[False, True], ids=["one-user", "own-user-ids"])
def box(request: pytest.FixtureRequest) -> "Iterator[RunnerBox]":
    if request.param and (reason := uid_drop_missing()) is not None:
        pytest.skip(reason)
    with runner_box(WORLD, drop=request.param, agent_code=True) as started:
        yield started


def write_solution(box: "RunnerBox", instance: str, source: str) -> None:
    arguments = {"command": "create", "path": "solution.py", "file_text": source}
    call = {"id": "c", "type": "function", "function": {"name": "str_replace_editor", "arguments": arguments}}
    body: dict[str, Any] = {"message": {"role": "assistant", "tool_calls": [call]}}
    reply = box.request(Op.STEP, instance, meta={"deadline_s": 20}, body=body)
    assert reply.op is Op.REPLY, reply.body


def evaluate(box: "RunnerBox", instance: str, timeout_s: float) -> dict[str, Any]:
    grading = {**CHEATING_TASK, "timeout_s": timeout_s}
    reply = box.request(
        Op.EVALUATE, instance, meta={"deadline_s": 60}, body={"params": {}, "grading": grading}
    )
    assert reply.op is Op.REPLY, reply.body
    verdict: dict[str, Any] = json.loads(reply.body)
    return verdict


@pytest.mark.parametrize("cheat", CHEATS)
def test_no_cheat_passes(cheat: str, box: "RunnerBox") -> None:
    instance = f"cheat-{list(CHEATS).index(cheat)}"
    assert box.create(instance, TASK).op is Op.REPLY
    write_solution(box, instance, CHEATS[cheat])
    verdict = evaluate(box, instance, 1.0)
    assert not verdict["success"]
    assert verdict["details"]["passed"] == 0
    write_solution(box, instance, HONEST)
    assert evaluate(box, instance, 10.0)["success"]
    assert box.release(instance)
