"""AppWorld's evaluation of the live databases, in a process of its own that is thrown away.

AppWorld evaluates by pointing its models at other databases and back, and by loading the task's beginning
beside its end. In a fork of the world none of that reaches the world, so it may be asked for at any time
and as often as wanted. What all evaluations load is loaded before any world is forked.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest as pytest  # AppWorld's checks import it when the first of them runs
from appworld import evaluator
from appworld import task as appworld_task
from appworld.apps.model_lib import Database, ModelHashHandler

from sandbox_service.runner.kernel.cpu_usage import usage_of
from sandbox_service.runner.kernel.forked_copy import ForkedCopy, forked_copy
from sandbox_service.runner.worker.allowance import Allowance

from .engine import BEGINNING, OUTPUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from .engine import AppWorldEngine


_EVALUATION_S = 100.0
"""Bound on the computation of an evaluation, which takes a fraction of a second."""
_PROOF_SHARE = 0.1
"""Share of the time that is kept for evaluating the untouched databases."""
_LATE = "too late"
_IN_MEMORY = ":memory:"
"""Stands for the name of an experiment: AppWorld looks for no folder of a name like that."""


class EvaluationError(Exception):
    """The task could not be evaluated."""


class LateError(Exception):
    """There was too little time to evaluate the task, as on a busy machine."""


class TaskScore(NamedTuple):
    """The number of a task's requirements that hold."""

    passes: int
    failures: int
    success: bool
    failed: str | None = None
    """The exception at which the evaluation failed, if the agent caused it."""

    @property
    def share(self) -> float:
        """AppWorld's share of passed tests."""
        return self.passes / max(1, self.passes + self.failures)


def evaluate(engine: AppWorldEngine, task_id: str, wall_timeout_s: float) -> TaskScore:
    """Evaluate the open task within ``wall_timeout_s``.

    An evaluation that fails, where one of the task's untouched databases does not, failed at what the agent
    did: no requirement holds. Raises EvaluationError if both raise, LateError if there is too little time for
    a decision, and OSError if the machine prevents one.
    """
    deadline = time.monotonic() + wall_timeout_s
    result = _evaluate_apart(engine, task_id, OUTPUT, (1 - _PROOF_SHARE) * wall_timeout_s)
    if "passes" in result:
        return TaskScore(result["passes"], result["failures"], result["success"])
    untouched = _evaluate_apart(engine, task_id, BEGINNING, max(0.0, deadline - time.monotonic()))
    if "passes" in untouched:
        requirements = untouched["passes"] + untouched["failures"]
        return TaskScore(0, requirements, success=False, failed=result["failed"])
    if untouched["failed"] == _LATE:
        raise LateError("too little time for an evaluation")
    if untouched["failed"] == MemoryError.__name__:
        raise OSError("too little memory for an evaluation")
    raise EvaluationError(f"the grader raised {untouched['failed']}")


def _evaluate_apart(engine: AppWorldEngine, task_id: str, home: str, wall_timeout_s: float) -> dict[str, Any]:
    """Evaluate the databases of ``home`` in a fork.

    Returns the numbers, or in ``failed`` the exception's name or that it was too late. Raises LateError if
    the machine is too busy, and OSError.
    """

    def answer_for(send: Callable[[bytes], object]) -> None:
        try:
            found = json.dumps(_evaluate(engine, task_id, home))
        except BaseException as error:  # noqa: BLE001  # graders are foreign code
            sys.__excepthook__(type(error), error, error.__traceback__)
            kind = "machine" if isinstance(error, OSError) else "failed"
            found = json.dumps({kind: type(error).__name__})
        send(found.encode())

    with forked_copy(answer_for) as copy:
        allowance = Allowance(
            _EVALUATION_S, wall_timeout_s, lambda enough_s: usage_of([copy.pid], enough_s=enough_s)
        )
        answer = _read(copy, allowance)
    if "machine" in answer:
        raise OSError(f"the evaluation raised {answer['machine']}")
    if answer:
        return answer
    if allowance.over():
        if allowance.starved():
            raise LateError(f"the machine is too busy: no evaluation in {wall_timeout_s:g} s")
        return {"failed": _LATE}
    if os.WIFSIGNALED(copy.status) and os.WTERMSIG(copy.status) == signal.SIGKILL:
        raise OSError("the evaluation process was killed")
    return {"failed": "exit"}


def _evaluate(engine: AppWorldEngine, task_id: str, graded: str) -> dict[str, Any]:
    load, home = ModelHashHandler.load, evaluator.get_db_home_path

    def load_hashes(from_path: str | None = None, to_path: str | None = None) -> None:
        # The live ones are in memory, where AppWorld expects to read them from its last save.
        if to_path != OUTPUT:
            load(from_path, to_path)

    def home_of(storage_type: str, type: str, task_id: str | None = None, **more: Any) -> str:  # noqa: ANN401
        if (storage_type, type) == ("memory", "task_output"):
            return graded
        if (storage_type, type) == ("memory", "task_input"):
            return BEGINNING
        return str(home(storage_type, type, task_id, **more))

    ModelHashHandler.load = load_hashes
    evaluator.get_db_home_path = appworld_task.get_db_home_path = home_of
    # Hundreds of switches between two dozen databases; AppWorld forgoes the cache for processes that live on.
    Database._get_engine_to_details = staticmethod(functools.cache(Database._get_engine_to_details))  # noqa: SLF001
    engine.load_beginning(task_id)
    tests = evaluator.evaluate_task(task_id, _IN_MEMORY, suppress_errors=True, save_report=False)
    return {
        "passes": len(tests.passes),
        "failures": tests.num_tests - len(tests.passes),
        "success": bool(tests.success),
    }


def _read(copy: ForkedCopy, allowance: Allowance) -> dict[str, Any]:
    data = b""
    while not allowance.over():
        part = copy.read(allowance.wait_s)
        if part == b"":
            break
        data += part or b""
    try:
        answer = json.loads(data)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
