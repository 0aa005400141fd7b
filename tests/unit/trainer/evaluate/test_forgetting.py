"""Average forgetting as Chaudhry et al. define it, from evaluations at the ends of phases."""

import pytest

from trainer.config import PhaseConfig
from trainer.evaluate.forgetting import phase_outcomes
from trainer.evaluate.results import EvaluationResult, TaskOutcome

PHASES = [PhaseConfig(name=name.upper(), steps=2, sources=(name,)) for name in ("a", "b", "c")]


def evaluation(step, when="during", **solved):
    """An evaluation of ten episodes of each source."""
    tasks = tuple(
        TaskOutcome(f"{name}0", "", 10, count, count / 10, source=name) for name, count in solved.items()
    )
    return EvaluationResult(step, when, "test", tasks)


RUN = [
    evaluation(0, "before", a=0, b=0, c=0),
    evaluation(2, a=8, b=2, c=0),
    evaluation(3, a=1, b=1, c=1),
    evaluation(4, a=6, b=9, c=1),
    evaluation(6, "after", a=5, b=9, c=7),
]


def test_forgetting_is_the_best_earlier_success_minus_the_present_one() -> None:
    first, second, third = phase_outcomes(PHASES, RUN)
    assert (first.name, first.step, first.average) == ("A", 2, None)
    assert second.forgetting == pytest.approx({"a": 0.2})
    assert third.forgetting == pytest.approx({"a": 0.3, "b": 0.0})
    assert third.average == pytest.approx(0.15)
    assert third.success == {"a": 0.5, "b": 0.9, "c": 0.7}


def test_a_later_phase_that_helps_gives_negative_forgetting() -> None:
    _, second = phase_outcomes(PHASES[:2], [evaluation(2, a=2, b=0), evaluation(4, a=6, b=5)])
    assert second.average == pytest.approx(-0.4)


def test_a_source_that_a_phase_trains_again_is_not_forgotten_in_it() -> None:
    phases = [*PHASES[:2], PhaseConfig(steps=2, sources=("a", "b"))]
    *_, third = phase_outcomes(phases, RUN)
    assert third.average is None
    assert third.name == "a+b"


def test_a_source_without_a_verdict_has_no_success_and_its_earlier_best_counts() -> None:
    lost = EvaluationResult(4, "during", "test", (TaskOutcome("a0", "", 0, 0, 0.0, failures=10, source="a"),))
    _, second, third = phase_outcomes(PHASES, [RUN[1], lost, RUN[4]])
    assert (second.success, second.forgetting, second.average) == ({}, {}, None)
    assert third.forgetting == pytest.approx({"a": 0.3, "b": 0.2 - 0.9})


def of_tasks(step, *, lost):
    """Every other task is solved in all of four episodes; ``lost`` ones of an unsolved task have no score."""
    tasks = tuple(
        TaskOutcome(f"{name}{number}", "", 4 - lost * unsolved, 4 * (not unsolved), 0.0, source=name)
        for name in ("a", "b")
        for number in range(6)
        for unsolved in (number % 2,)
    )
    return EvaluationResult(step, "during", "test", tasks)


@pytest.mark.parametrize("lost", [3, 4])
def test_lost_episodes_of_hard_tasks_are_not_learned(lost: int) -> None:
    _, second = phase_outcomes(PHASES[:2], [of_tasks(2, lost=0), of_tasks(4, lost=lost)])
    assert second.forgetting == {"a": 0.0}
    assert second.success["a"] == (0.5 if lost < 4 else 1.0)


def test_phases_without_a_common_task_have_no_forgetting() -> None:
    other = EvaluationResult(2, "during", "test", (TaskOutcome("a1", "", 10, 9, 0.9, source="a"),))
    _, second = phase_outcomes(PHASES[:2], [other, RUN[3]])
    assert (second.success["a"], second.forgetting) == (0.6, {})


def test_steps_of_a_warm_start_are_not_counted_and_a_run_in_progress_has_its_ended_phases() -> None:
    shifted = [evaluation(102, a=8, b=2, c=0), evaluation(104, a=6, b=9, c=1)]
    assert [each.step for each in phase_outcomes(PHASES, shifted, 100)] == [2, 4]
    assert phase_outcomes((), RUN) == ()
