"""Metrics of evaluations on held-out tasks."""

from trainer.batches.held_out import figures
from trainer.evaluate.results import EvaluationResult, TaskOutcome


def test_an_evaluation_is_metrics_by_difficulty_and_source() -> None:
    tasks = (
        TaskOutcome("a", "easy", 2, 1, 0.5, source="math"),
        TaskOutcome("b", "hard", 0, 0, 0.0, failures=2, source="code"),
    )
    found = figures(EvaluationResult(0, "before", "test", tasks))
    assert found["evaluation/success"] == found["evaluation/score"] == 0.5
    assert found["evaluation/success/easy"] == found["evaluation/source/math"] == 0.5
    assert found["evaluation/failures"] == 2.0
    assert not found.keys() & {"evaluation/success/hard", "evaluation/source/code"}


def test_an_evaluation_without_a_verdict_has_no_success() -> None:
    lost = EvaluationResult(0, "before", "test", (TaskOutcome("a", "easy", 0, 0, 0.0, failures=4),))
    assert figures(lost) == {"evaluation/failures": 4.0}
