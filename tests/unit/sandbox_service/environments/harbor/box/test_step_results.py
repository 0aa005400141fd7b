"""The results of steps decide about the task, in whichever boxes their tests run."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox_service.environments.harbor.box.rewards import RewardError
from sandbox_service.environments.harbor.box.step_results import DueTests, StepResults
from sandbox_service.runner.world import Verdict
from sandbox_service.wire.json_types import JsonObject

FULL: JsonObject = {"rewards": {"reward": 1.0}}
HALF: JsonObject = {"rewards": {"reward": 0.5}}
TWO: JsonObject = {"rewards": {"a": 0.5, "b": 0.0}}
ATTACK: JsonObject = {"rewards": {"reward": 0.0}, "reason": "the tests were killed"}


def results(reached: int = 2, least: float = 0.0, **changes: Any) -> StepResults:
    steps = [{"name": name, "min_reward": {}} for name in ("one", "two")]
    steps[0]["min_reward"] = changes.pop("min_reward", {})
    grading = {"steps": steps, "strategy": "mean", "reward_range": [least, 1.0], **changes}
    return StepResults(grading, reached)


def verdict(made: StepResults, *found: JsonObject) -> Verdict:
    decided = made.decide(found)
    assert isinstance(decided, Verdict)
    return decided


def test_steps_are_graded_in_their_order_and_combined() -> None:
    assert results().decide([]) == DueTests(0)
    assert results().decide([FULL]) == DueTests(1)
    found = verdict(results(), FULL, HALF)
    assert (found.score, found.success) == (0.75, False)
    shown = [{"step": "one", **FULL}, {"step": "two", **HALF}]
    assert found.details == {"rewards": {"reward": 0.75}, "steps": shown, "ended_by_min_reward": False}
    assert verdict(results(strategy="final"), HALF, FULL).success


def test_a_step_that_was_not_reached_is_not_graded_and_counts_as_the_least() -> None:
    found = verdict(results(reached=1, least=-1.0), FULL)
    assert found.score == 0.0
    assert found.details["steps"][1] == {"step": "two", "rewards": {"reward": -1.0}, "note": "not reached"}


@pytest.mark.parametrize("least", [0.0, -1.0])
def test_a_step_that_was_not_reached_has_the_keys_of_the_others(least: float) -> None:
    found = verdict(results(reached=1, least=least), {"rewards": {"accuracy": 1.0}})
    assert found.details["rewards"] == {"accuracy": (1.0 + least) / 2}
    assert found.score == (1.0 + least) / 2


def test_a_step_that_was_not_reached_has_every_key_beside_that_of_the_score() -> None:
    found = verdict(results(reached=1, least=-1.0), {"rewards": {"reward": 1.0, "style": 0.5}})
    assert found.details["rewards"] == {"reward": 0.0, "style": -0.25}


@pytest.mark.parametrize("strategy", ["mean", "final"])
def test_a_step_that_was_not_reached_has_a_score_where_the_keys_of_the_others_are_none(strategy: str) -> None:
    found = verdict(results(reached=1, strategy=strategy), TWO)
    assert (found.score, found.details["steps"][1]["rewards"]) == (0.0, {"reward": 0.0})


def test_a_step_that_is_too_large_has_the_keys_of_later_ones_and_ends_the_count_below_a_threshold() -> None:
    large: JsonObject = {"note": "too large"}
    assert verdict(results(), large, {"rewards": {"accuracy": 1.0}}).score == 0.5
    assert verdict(results(), large, large).details["rewards"] == {"reward": 0.0}
    assert verdict(results(min_reward={"accuracy": 0.5}), large).details["ended_by_min_reward"]
    assert results(min_reward={"accuracy": 0.0}).decide([large]) == DueTests(1)


def test_no_step_is_graded_after_one_below_its_least_reward() -> None:
    found = verdict(results(min_reward={"reward": 0.75}, strategy="final"), HALF)
    assert (found.score, found.details["ended_by_min_reward"]) == (0.5, True)
    assert results(min_reward={"reward": 0.5}).decide([HALF]) == DueTests(1)


def test_an_attack_in_a_step_costs_the_whole_score_and_ends_the_grading() -> None:
    found = verdict(results(least=-1.0), ATTACK)
    assert (found.score, found.success) == (-1.0, False)
    assert found.details == {
        "rewards": {"reward": -1.0},
        "reason": "the tests were killed",
        "steps": ["one"],
    }
    assert verdict(results(), FULL, ATTACK).details["steps"] == ["two"]


def test_a_result_without_rewards_is_an_attack() -> None:
    found = verdict(results(), FULL, {"exhausted": "memory"})
    assert (found.score, found.details["exhausted"]) == (0.0, "memory")


def test_the_exception_of_a_world_is_named_in_the_verdict() -> None:
    found = verdict(results(), FULL, {"exception": "KeyError"})
    assert found.details == {
        "rewards": {"reward": 0.0},
        "reason": "the grading of a step was broken off: KeyError",
        "steps": ["two"],
        "exception": "KeyError",
    }


def test_rewards_that_are_no_score_are_compared_with_those_of_untouched_files() -> None:
    assert results().decide([TWO, TWO]) == DueTests(0, untouched=True)
    assert results().decide([TWO, TWO, FULL]) == DueTests(1, untouched=True)
    found = verdict(results(), TWO, TWO, FULL, HALF)
    assert (found.score, found.details["steps"]) == (0.0, ["one", "two"])
    with pytest.raises(RewardError, match="on the task's untouched files several rewards"):
        results().decide([TWO, TWO, TWO, TWO])


def test_tests_that_break_off_on_untouched_files_are_at_fault() -> None:
    with pytest.raises(RewardError, match=r"on the task's untouched files the grading .* KeyError"):
        results().decide([TWO, TWO, FULL, {"exception": "KeyError"}])


def test_rewards_of_a_step_need_no_score_where_those_of_the_task_have_one() -> None:
    assert verdict(results(strategy="final"), TWO, FULL).success
