"""Hidden tests on a machine that is too busy for them: a right solution is never a wrong one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.wire.frames import Op
from tests.harness.busy import ON_A_BUSY_CPU, busy_cpu
from tests.harness.runner_box import error_code, runner_box

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_service.wire.frames import Frame
    from tests.harness.runner_box import RunnerBox

CATALOG = CodeCatalog(CodeConfig())
TASK = next(
    task_id for task_id in CATALOG.task_ids("hard") if CATALOG.payload(task_id).grading["kind"] == "tests"
)
COMPUTES = "import time\ndef add(a, b):\n    while time.process_time() < 0.15: pass\n    return a + b\n"
SLEEPS = "import time\ndef add(a, b):\n    time.sleep(100)\n    return a + b\n"
SPINS = "def add(a, b):\n    while True: pass\n"


@pytest.fixture(scope="module")
def box() -> Iterator[RunnerBox]:
    """A box that gets a fifth of a processor."""
    world = CATALOG.spec.world_module
    with (
        runner_box(world, agent_code=True, wall_timeout_s=120, command=ON_A_BUSY_CPU) as started,
        busy_cpu(),
    ):
        yield started


def evaluated(box: RunnerBox, solution: str, *, timeout_s: float, deadline_s: float, tests: int = 2) -> Frame:
    """Return the evaluation of a submitted solution."""
    assert box.create("e", CATALOG.payload(TASK).task).op is Op.REPLY
    calls: list[tuple[str, dict[str, Any]]] = [
        ("str_replace_editor", {"command": "create", "path": "solution.py", "file_text": solution}),
        ("submit", {}),
    ]
    for name, arguments in calls:
        call = {"id": "c", "function": {"name": name, "arguments": json.dumps(arguments)}}
        body = {"message": {"role": "assistant", "tool_calls": [call]}}
        assert box.request(Op.STEP, "e", meta={"deadline_s": 60}, body=body).op is Op.REPLY
    grading = {
        "kind": "tests",
        "names": ["add"],
        "tests": ["assert add(1, 2) == 3"] * tests,
        "setup": "",
        "timeout_s": timeout_s,
        "write_back": False,
    }
    body = {"params": {}, "grading": grading}
    reply = box.request(Op.EVALUATE, "e", meta={"deadline_s": deadline_s}, body=body)
    assert box.release("e")
    return reply


def test_a_right_solution_passes_however_long_it_waits_for_a_processor(box: RunnerBox) -> None:
    verdict = json.loads(evaluated(box, COMPUTES, timeout_s=0.6, deadline_s=100).body)
    assert (verdict["score"], verdict["details"]["results"]) == (1.0, ["passed", "passed"])


def test_a_solution_that_sleeps_fails_by_its_own_doing(box: RunnerBox) -> None:
    verdict = json.loads(evaluated(box, SLEEPS, timeout_s=0.5, deadline_s=100).body)
    assert (verdict["score"], verdict["details"]["results"]) == (0.0, ["timeout", "timeout"])


def test_a_solution_that_computes_for_ever_fails_when_its_time_is_used_up(box: RunnerBox) -> None:
    verdict = json.loads(evaluated(box, SPINS, timeout_s=0.2, deadline_s=100).body)
    assert verdict["details"]["results"] == ["timeout", "timeout"]


def test_an_evaluation_that_the_machine_kept_from_its_time_is_an_error_to_retry(box: RunnerBox) -> None:
    reply = evaluated(box, COMPUTES, timeout_s=10, deadline_s=4, tests=20)
    assert error_code(reply) == "deadline_exceeded"
