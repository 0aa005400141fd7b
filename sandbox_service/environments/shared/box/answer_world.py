"""Single-turn environments: a question, one answer, the end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from sandbox_service.runner.world import JsonObject, Outcome, World

from .calls import plain_text
from .task_world import TaskWorld

_OPEN, _CLOSE = "<answer>", "</answer>"
_HARMLESS = ("0", "yes", "A", "{}", "unknown")
"""Plain answers: a grader that reads numbers or JSON, and raises for anything else, takes one of them."""


class AnswerWorld(TaskWorld):
    """An episode of one assistant message, whose answer is graded.

    The answer is the text between the last ``<answer>`` and ``</answer>``, or the whole text without them;
    the model's thoughts are no part of it. It is data, never code: grade it with a parser, not by running it.
    """

    SYSTEM: ClassVar[str] = "Give your final answer between <answer> and </answer>."
    TEXTS = "last"
    answer: str | None = None

    @abstractmethod
    def grade_answer(self, answer: str, grading: JsonObject) -> float:
        """Return how good the answer is, from 0 to 1."""

    def step(self, message: JsonObject, timeout_s: float) -> Outcome:
        self.answer = answer_in(plain_text(message.get("content")))
        return Outcome([{"role": "user", "content": "The answer is recorded."}], terminated=True)

    def untouched(self, task: JsonObject) -> Iterator[World]:
        for answer in _HARMLESS:
            for untouched in super().untouched(task):
                assert isinstance(untouched, AnswerWorld)
                untouched.answer = answer
                yield untouched

    def grade_task(self, grading: JsonObject) -> float:
        return 0.0 if self.answer is None else self.grade_answer(self.answer, grading)


def answer_in(text: str) -> str:
    """Return the text of the last answer tag, or the whole text without one, stripped."""
    before, tag, after = text.rpartition(_OPEN)
    return (after.partition(_CLOSE)[0] if tag else before or after).strip()
