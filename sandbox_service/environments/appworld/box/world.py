"""AppWorld in the box: databases, ground truth and evaluator here, the agent's code in another process.

One world a process. All of AppWorld is loaded once, in the process that worlds are forked from.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from sandbox_service.runner.world import Context, Outcome, Start, Verdict, World, WorldError, wants_sparse
from sandbox_service.wire.codes import BoxErrorCode

from .actions import Action, read_actions
from .cells import Cells, read_preamble
from .engine import AppWorldEngine
from .evaluation import EvaluationError, LateError, TaskScore, evaluate
from .prompts import TOOL, introduction, task_message

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

    from .engine import TaskSpecs


_PARAMS = ("prompt", "simple", "sparse")
_OVER = "Nothing was run: the task has been completed."
_NO_TIME = "Nothing was run: the time of this step is used up."
_LEAST_TIME_S = 0.1


def warm(data: str | None) -> None:
    """Load AppWorld with its data. Raises RuntimeError when the box has no data."""
    if data is None:
        raise RuntimeError("AppWorld has no data here")
    if AppWorldWorld.engine is None:
        AppWorldWorld.engine, AppWorldWorld.preamble = AppWorldEngine(data), read_preamble()


class AppWorldWorld(World):
    """One task, from its opening to ``complete_task``."""

    engine: ClassVar[AppWorldEngine | None] = None
    """AppWorld as it was loaded in the process that worlds are forked from."""
    preamble: ClassVar[str] = ""
    """The cell that opens each notebook."""

    def __init__(self, task: JsonObject, context: Context) -> None:
        super().__init__(task, context)
        self._flags = {name: _flag(context.params, name, default=name == "prompt") for name in _PARAMS}
        unknown = sorted(set(context.params) - set(_PARAMS))
        if unknown:
            detail = f"appworld has no parameter {unknown[0]!r}; there are: {', '.join(_PARAMS)}"
            raise WorldError(detail, BoxErrorCode.INVALID_REQUEST)
        if context.agent is None:
            raise WorldError("AppWorld needs an agent to run code")
        if self.engine is None:
            raise WorldError("AppWorld is not loaded")
        self._engine = self.engine
        self._cells = Cells(self._engine, context.agent, self.preamble, int(task["max_output"]))
        self._final: TaskScore | None = None

    def start(self) -> Start:
        try:
            specs: TaskSpecs = self._engine.open(str(self.task["id"]))
        except (OSError, KeyError, ValueError) as error:
            raise WorldError(f"task {self.task['id']} cannot be opened: {error}") from error
        self._cells.moment = specs.moment.isoformat()
        system = introduction(specs, simple=self._flags["simple"], full=self._flags["prompt"])
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": task_message(specs)},
        ]
        info = {str(key): self.task[key] for key in ("category", "max_steps") if key in self.task}
        return Start(messages, [TOOL], info)

    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        # Some of the time is left for the evaluation of a completed task.
        end = time.monotonic() + timeout_s
        deadline = end - min(5.0, timeout_s * 0.2)
        messages: list[JsonObject] = []
        over = False
        for action in read_actions(message, simple=self._flags["simple"]):
            if over:
                messages.append(_message(action, _OVER))
            elif action.problem is not None:
                messages.append(_message(action, action.problem))
            elif messages and deadline - time.monotonic() < _LEAST_TIME_S:
                # The rest of the time belongs to the evaluation, which no number of calls may prevent.
                messages.append(_message(action, _NO_TIME))
            else:
                messages.append(_message(action, self._run(action, deadline)))
                over = self._engine.completed()
        if not over:
            return Outcome(messages)
        # Nothing can change any more, so this is what every later evaluation would say.
        self._final = score = self._evaluate(end - time.monotonic(), BoxErrorCode.STEP_TIMEOUT)
        reward = float(score.success) if self._flags["sparse"] else score.share
        return Outcome(messages, reward, terminated=True)

    def _run(self, action: Action, deadline: float) -> str:
        wall_timeout_s = max(_LEAST_TIME_S, deadline - time.monotonic())
        output = self._cells.run(action.code, int(self.task["cell_timeout_s"]), wall_timeout_s)
        return output if self._flags["simple"] else f"Output:\n```\n{output}```\n\n"

    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        sparse = wants_sparse(params)
        score = self._final or self._evaluate(self.evaluate_timeout_s, BoxErrorCode.DEADLINE_EXCEEDED)
        details: JsonObject = {"passes": score.passes, "failures": score.failures}
        details["completed"] = self._engine.completed()
        if score.failed is not None:
            details["exception"] = score.failed
        return Verdict(float(score.success) if sparse else score.share, score.success, details)

    def _evaluate(self, wall_timeout_s: float, late: BoxErrorCode) -> TaskScore:
        # A little of it is left for finding out why an evaluation is late. The agent stands still meanwhile:
        # processes of its own must not make the machine look too busy.
        assert self.context.agent is not None, "checked at the start"
        try:
            with self.context.agent.still():
                return evaluate(self._engine, str(self.task["id"]), max(0.1, wall_timeout_s - 1.0))
        except LateError as error:
            raise WorldError(str(error), late) from None
        except OSError as error:
            raise WorldError(f"the sandbox could not grade: {error}", BoxErrorCode.SANDBOX_FAILED) from error
        except EvaluationError as error:
            raise WorldError(str(error), BoxErrorCode.GRADER_FAILED) from error


def _message(action: Action, text: str) -> JsonObject:
    if action.native:
        return {"role": "tool", "tool_call_id": action.call_id, "content": text}
    return {"role": "user", "content": text}


def _flag(params: JsonObject, name: str, *, default: bool) -> bool:
    value = params.get(name, default)
    if not isinstance(value, bool):
        raise WorldError(f"the parameter {name} is true or false", BoxErrorCode.INVALID_REQUEST)
    return value


WORLD = AppWorldWorld
