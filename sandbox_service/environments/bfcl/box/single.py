"""Single-turn tasks: one message with calls, which are recorded and compared, or with none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sandbox_service.environments.shared.box.call_answers import answered
from sandbox_service.environments.shared.box.calls import parse_calls
from sandbox_service.runner.world import JsonObject, Outcome, Start

from . import checkers
from .dialogue import Dialogue, Graded, opened
from .prompts import COMPLETED, NOT_RUN, ONE_ANSWER

if TYPE_CHECKING:
    from .dialogue import Options
    from .task_files import TaskFiles


class SingleTurn(Dialogue):
    """A request, functions, and the calls that answer it."""

    def __init__(self, files: TaskFiles, task: JsonObject, limits: JsonObject, options: Options) -> None:
        self.files = files
        self.task_id: str = task["id"]
        self.category: str = task["category"]
        self.limits = limits
        self.options = options
        self.calls: list[JsonObject] | None = None
        """Function name to arguments, for each call; None before the answer."""

    def open(self) -> Start:
        task = self.files.task(self.task_id)
        info: JsonObject = {"turns": 1}
        if self._wants_no_call():
            info["texts"] = "last"
        return Start(opened(ONE_ANSWER, task["turns"][0]), task["tools"], info)

    def take_turn(self, message: JsonObject) -> Outcome:
        calls = parse_calls(message)
        checked = [{"name": call.name, "succeeded": call.problem is None} for call in calls]
        if any(call.problem is not None for call in calls):
            # A message with a broken call is not graded: the model may answer again.
            texts = [
                f"Error: {call.problem}" if call.problem else "Not recorded: another call was broken."
                for call in calls
            ]
            return Outcome(answered(calls, texts), info={"calls": checked})
        task = self.files.task(self.task_id)
        names = {
            tool["function"]["name"]: document["name"]
            for tool, document in zip(task["tools"], task["functions"], strict=True)
        }
        self.calls = [{names.get(call.name, call.name): call.arguments} for call in calls]
        messages = answered(calls, [NOT_RUN] * len(calls)) if calls else []
        if not calls or not calls[0].native:
            messages = [{"role": "user", "content": COMPLETED}]
        reward = float(self._is_right(task)) if self.options.step_rewards else 0.0
        return Outcome(messages, reward, terminated=True, info={"calls": checked})

    def _wants_no_call(self) -> bool:
        return "irrelevance" in self.category

    def _is_right(self, task: JsonObject) -> bool:
        return self.grade(self.files.answer(self.task_id)["truth"], task).valid

    def grade(self, truth: Any, task: JsonObject | None = None) -> Graded:  # noqa: ANN401
        details: JsonObject = {"turns": 1, "turns_answered": int(self.calls is not None)}
        if self.calls is None:
            return Graded(False, "single_turn:no_answer", details)
        if self._wants_no_call():
            valid = not self.calls
            return Graded(valid, None if valid else "irrelevance_error:decoder_success", details)
        if "relevance" in self.category:
            valid = bool(self.calls)
            return Graded(valid, None if valid else "relevance_error:decoder_failed", details)
        judgement = checkers.check_calls(task or self.files.task(self.task_id), self.calls, truth)
        return Graded(judgement.valid, judgement.error_type, details)
