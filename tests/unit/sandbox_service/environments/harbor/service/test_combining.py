"""The service makes the verdict on steps that were graded in several boxes."""

from __future__ import annotations

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.environments.base import DuePart
from sandbox_service.environments.harbor.service.combining import StepsCombination
from sandbox_service.errors import ServiceError
from sandbox_service.runner.world import Verdict
from sandbox_service.wire.json_types import JsonObject

FULL: JsonObject = {"rewards": {"reward": 1.0}}
HALF: JsonObject = {"rewards": {"reward": 0.5}}
TWO: JsonObject = {"rewards": {"a": 0.5, "b": 0.0}}


def combined(*results: JsonObject, reached: int = 2, **params: bool) -> DuePart | Verdict:
    steps = [{"name": name, "min_reward": {}} for name in ("one", "two")]
    grading = {"steps": steps, "strategy": "mean", "reward_range": [0.0, 1.0]}
    return StepsCombination(grading)(dict(params), reached, results)


def verdict(*results: JsonObject, reached: int = 2, **params: bool) -> Verdict:
    found = combined(*results, reached=reached, **params)
    assert isinstance(found, Verdict)
    return found


def test_steps_are_asked_for_until_there_is_a_verdict() -> None:
    assert combined() == DuePart(0, {"index": 0, "untouched": False})
    assert combined(FULL) == DuePart(1, {"index": 1, "untouched": False})
    assert combined(TWO, TWO) == DuePart(0, {"index": 0, "untouched": True})
    assert verdict(FULL, HALF).score == 0.75
    assert verdict(FULL, reached=1).details["steps"][1]["note"] == "not reached"


def test_a_sparse_verdict_is_success_alone() -> None:
    assert verdict(FULL, HALF, sparse=True).score == 0.0
    assert verdict(FULL, FULL, sparse=True).score == 1.0


def test_the_verdict_names_the_hooks_that_failed_until_the_last_graded_step() -> None:
    failed = {"failed_hooks": [{"step": "one", "hook": 1, "exit_code": 3}]}
    assert verdict({**FULL, **failed}, {**HALF, **failed}).details["failed_hooks"] == failed["failed_hooks"]
    assert "failed_hooks" not in verdict(FULL, HALF).details


def test_tests_whose_rewards_are_no_score_on_any_files_are_the_tasks_fault() -> None:
    with pytest.raises(ServiceError) as caught:
        combined(TWO, TWO, TWO, TWO)
    assert caught.value.code is ErrorCode.GRADER_FAILED


@pytest.mark.parametrize(
    "rewards", [{"reward": 7.0}, {"reward": "1"}, {"reward": float("nan")}, {}, [1.0], {"reward": True}]
)
def test_a_box_gives_no_reward_that_tests_may_not_give(rewards: object) -> None:
    with pytest.raises(ServiceError) as caught:
        combined(FULL, {"rewards": rewards})
    assert caught.value.code is ErrorCode.SANDBOX_FAILED
