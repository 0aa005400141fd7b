from dataclasses import replace

import pytest

from tests.fakes.training import evaluation
from trainer.config.evolve import EvolveMethod, EvolvePreferences, EvolveSft
from trainer.config.preferences import KtoLoss
from trainer.errors import DataError
from trainer.evaluate.results import EvaluationResult, TaskOutcome
from trainer.evolve.decision import Rule, decide, nothing_selected, rolled_back_in_a_row
from trainer.evolve.records import Decision


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (2, 9, {"better", "higher", "not_worse", "always"}),  # clearly better
        (5, 6, {"higher", "not_worse", "always"}),  # too little to be sure
        (6, 5, {"not_worse", "always"}),
        (9, 2, {"always"}),  # clearly worse
    ],
)
def test_a_model_is_kept_by_the_interval_of_the_difference(before: int, after: int, kept: set[str]) -> None:
    for rule in ("better", "higher", "not_worse", "always"):
        decision = decide(evaluation("alone", before), evaluation("alone", after), rule)
        assert decision.kept is (rule in kept), rule
        assert decision.difference == pytest.approx((after - before) / 10)
        assert f"evolve.keep={rule}" in decision.reason
        assert f"points from {10 * before}.0% to {10 * after}.0% (" in decision.reason
        assert ("kept" if decision.kept else "rolled back") in decision.reason


def test_models_that_share_no_task_with_a_score_cannot_be_compared() -> None:
    other = EvaluationResult(0, "alone", "test", (TaskOutcome("other", "", 1, 1, 1.0),))
    with pytest.raises(DataError, match="no scored task in common"):
        decide(evaluation("alone", 5), other, "always")


@pytest.mark.parametrize("rule", ["better", "not_worse"])
def test_the_tasks_that_failures_left_do_not_decide(rule: Rule) -> None:
    whole = evaluation("alone", 5)
    lost = (TaskOutcome(task.task_id, "", 0, 0, 0.0, failures=1) for task in whole.tasks[2:])
    few = replace(whole, tasks=(*whole.tasks[:2], *lost))
    for before, after in ((whole, few), (few, whole)):
        with pytest.raises(DataError, match="too many held-out tasks have no verdict"):
            decide(before, after, rule)
        assert decide(before, after, "always").kept


def test_tasks_that_are_at_fault_themselves_decide_nothing() -> None:
    whole = evaluation("alone", 5)
    broken = tuple(
        TaskOutcome(task.task_id, "", 0, 0, 0.0, failures=1, failure_classes={"task": 1})
        for task in whole.tasks[2:]
    )
    few = replace(whole, tasks=(*whole.tasks[:2], *broken))
    assert decide(few, few, "not_worse").tasks == 2
    # The model before got a verdict on them, so that it is the new one that loses them.
    with pytest.raises(DataError, match="too many held-out tasks have no verdict"):
        decide(whole, few, "not_worse")


@pytest.mark.parametrize(
    ("method", "cause", "setting"),
    [
        (EvolveSft(), "none of 40 explored episodes was selected", "lower evolve.select.threshold"),
        (EvolvePreferences(), "40 explored episodes gave no preference", "lower evolve.train.method.margin"),
        (EvolvePreferences(loss=KtoLoss()), "gave no preference", "move evolve.train.method.desirable"),
    ],
    ids=["sft", "preferences", "kto"],
)
def test_an_iteration_without_data_names_the_settings_that_give_it_some(
    method: EvolveMethod, cause: str, setting: str
) -> None:
    decision = nothing_selected(40, method)
    assert not decision.kept
    assert cause in decision.reason
    assert setting in decision.reason
    assert ("select" in setting) == ("evolve.select" in decision.reason)


def test_only_the_latest_roll_backs_are_counted() -> None:
    kept, rolled_back = Decision(True, ""), Decision(False, "")
    assert rolled_back_in_a_row([]) == 0
    assert rolled_back_in_a_row([rolled_back, kept, rolled_back, rolled_back]) == 2
    assert rolled_back_in_a_row([rolled_back, kept]) == 0


def test_a_task_of_two_splits_decides_in_each() -> None:
    def result(solved: int) -> EvaluationResult:
        tasks = [
            TaskOutcome(str(number), "", 1, count, float(count), environment="code", split=split)
            for split, count in (("test", solved), ("easy", 0))
            for number in range(10)
        ]
        return EvaluationResult(0, "alone", "test+easy", tuple(tasks), "code")

    decision = decide(result(0), result(1), "higher")
    assert (decision.kept, decision.tasks, decision.difference) == (True, 20, 0.5)
