"""The base of small environments: an opening from the task's prompt, and a verdict from one number.

A world that needs neither tools nor turns is an ``AnswerWorld``, one with tools a ``ToolWorld``; both are
made for a ``TaskCatalog``, whose tasks have ``prompt``, ``category`` and ``max_steps``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from sandbox_service.runner.world import JsonObject, Start, Verdict, World, WorldError, wants_sparse
from sandbox_service.wire.codes import BoxErrorCode

from .parameters import unknown_parameter

_ROUNDING = 1e-9
"""Differences of scores that arithmetic makes."""


class TaskWorld(World):
    """An episode that begins with a prompt and ends with a score from 0 to 1."""

    SYSTEM: ClassVar[str]
    """The system prompt."""
    PARAMS: ClassVar[tuple[str, ...]] = ()
    """Create parameters that the world reads from ``self.context.params``."""

    TEXTS: ClassVar[str | None] = None
    """``last`` if the right last step may be a message without a call, ``dialogue`` if such messages are
    answered and the episode goes on; None where tool calls alone solve the task."""

    @abstractmethod
    def grade_task(self, grading: JsonObject) -> float:
        """Return how well the task is solved, from 0 to 1. Changes nothing: it may be called at any time.

        ``grading`` is what the catalog sends with each evaluation, and only then.
        """

    def open_task(self) -> str:
        """Set up the episode, and return the first message of the user: the prompt, unless overridden."""
        return str(self.task["prompt"])

    def list_tools(self) -> list[JsonObject]:
        """Return the schemas of the tools; none by default."""
        return []

    def start(self) -> Start:
        unknown = sorted(set(self.context.params) - set(self.PARAMS))
        if unknown:
            raise WorldError(unknown_parameter(unknown[0], self.PARAMS), BoxErrorCode.INVALID_REQUEST)
        opening = self.open_task()
        messages = [{"role": "system", "content": self.SYSTEM}, {"role": "user", "content": opening}]
        info = {"category": self.task["category"], "max_steps": self.task["max_steps"]}
        if self.TEXTS is not None:
            info["texts"] = self.TEXTS
        return Start(messages, self.list_tools(), info)

    def evaluate(self, params: JsonObject, grading: JsonObject) -> Verdict:
        sparse = wants_sparse(params)
        score = float(self.grade_task(grading))
        detail = f"{type(self).__name__}.grade_task returned {score}, which is not between 0 and 1"
        if score > 1.0 + _ROUNDING:
            # More than there is to earn: no agent gets out of a bad score by it.
            raise WorldError(detail, BoxErrorCode.GRADER_FAILED)
        if not score >= -_ROUNDING:
            raise ValueError(detail)
        score = min(1.0, max(0.0, score))
        success = score >= 1.0
        return Verdict(float(success) if sparse else score, success)
