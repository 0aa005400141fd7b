"""The table that a finished run prints."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from tests.fakes.training import FakeRun
from trainer.cli.tables import run_view
from trainer.evaluate.results import EvaluationResult, TaskOutcome, When


def shown(before: EvaluationResult, after: EvaluationResult) -> str:
    """Return what is printed of a run, on lines that are not broken."""
    console = Console(width=200)
    with console.capture() as text:
        console.print(run_view(FakeRun(Path("mine"), before=before, after=after)))
    return text.get()


def evaluated(when: When, *tasks: TaskOutcome) -> EvaluationResult:
    return EvaluationResult(0, when, "test", tasks, environment="code")


def test_an_evaluation_without_a_verdict_has_no_interval() -> None:
    lost = evaluated("after", TaskOutcome("a", "", 0, 0, 0.0, failures=4))
    text = shown(evaluated("before", TaskOutcome("a", "", 4, 2, 0.5)), lost)
    (row,) = [line.split() for line in text.splitlines() if line.lstrip().startswith("after")]
    assert row == ["after", "0", "no", "verdict"]


def test_the_change_by_task_has_the_rates_that_it_is_of() -> None:
    """The rates above it count episodes, of which failures leave some tasks fewer than others."""
    solved, unsolved = TaskOutcome("a", "", 4, 4, 1.0), TaskOutcome("b", "", 4, 0, 0.0)
    fewer = TaskOutcome("b", "", 1, 0, 0.0, failures=3)
    text = shown(evaluated("before", solved, unsolved), evaluated("after", solved, fewer))
    assert "change on 2 tasks, each counting the same: +0 points from 50% to 50%" in text
