"""Make one verdict of the results of a task's steps, which were graded in several boxes.

It happens in the service, where no agent has been: one that gained control of its box would gain the rewards
of the steps that are graded there, and no others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.base import DuePart
from sandbox_service.environments.harbor.box.rewards import RewardError, check_range, parse_rewards
from sandbox_service.environments.harbor.box.step_results import DueTests, StepResults
from sandbox_service.errors import ServiceError
from sandbox_service.runner.world import Verdict, wants_sparse

if TYPE_CHECKING:
    from pydantic import JsonValue


class StepsCombination:
    """The rules of one task."""

    def __init__(self, grading: dict[str, Any]) -> None:
        """``grading`` has the strategy, the range of rewards, and names and least rewards of the steps."""
        self._grading = grading

    def __call__(
        self, params: dict[str, JsonValue], reached: int, results: Sequence[dict[str, Any]]
    ) -> DuePart | Verdict:
        """Return the step that is graded next, or the verdict on the task.

        Raises ServiceError: GRADER_FAILED when the tests give no score on the task's untouched files either,
        SANDBOX_FAILED for what is no result of a step.
        """
        for result in results:
            self._check(result)
        try:
            found = StepResults(self._grading, reached).decide(results)
        except RewardError as error:
            raise ServiceError(ErrorCode.GRADER_FAILED, str(error)) from error
        if isinstance(found, DueTests):
            return DuePart(found.index, asdict(found))
        # Each box was sent those of all steps until then.
        failed_hooks = results[-1].get("failed_hooks") if results else None
        details = {**found.details, **({"failed_hooks": failed_hooks} if failed_hooks else {})}
        score = float(found.success) if wants_sparse(params) else found.score
        return Verdict(score, found.success, details)

    def _check(self, result: dict[str, Any]) -> None:
        """Raise ServiceError if a box has answered with what no tests may give."""
        if "rewards" not in result:
            return
        try:
            rewards = parse_rewards(json.dumps(result["rewards"]), None)
            check_range(rewards, *self._grading["reward_range"])
        except RewardError as error:
            detail = f"a box has answered with no rewards: {error}"
            raise ServiceError(ErrorCode.SANDBOX_FAILED, detail) from error
