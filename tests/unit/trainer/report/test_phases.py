"""Phases of a run with several sources, in its report."""

from pathlib import Path

from trainer.config import RunConfig
from trainer.evaluate.results import EvaluationResult, TaskOutcome
from trainer.report.phases import phase_plot, phase_table
from trainer.report.run_data import RunData

CONFIG = RunConfig.model_validate(
    {
        "steps": 4,
        "tasks": {
            "sources": [{"environment": name, "splits": ["train"]} for name in ("code", "textcraft")],
            "phases": [{"steps": 2, "sources": ["code"]}, {"steps": 2, "sources": ["textcraft"]}],
        },
    }
)


def evaluation(step: int, code: int, textcraft: int | None) -> EvaluationResult:
    """Four episodes of each source; those of one may have failed."""
    lost = textcraft is None
    tasks = (
        TaskOutcome("a", "", 4, code, code / 4, source="code"),
        TaskOutcome("b", "", 0 if lost else 4, textcraft or 0, 0.0, 4 if lost else 0, source="textcraft"),
    )
    return EvaluationResult(step, "during", "test", tasks)


def test_a_source_without_a_verdict_is_a_gap_and_no_success_of_0() -> None:
    run = RunData(Path(), "run", {}, {}, (evaluation(2, 2, None), evaluation(4, 1, 3)), CONFIG, None, {})
    table, plot = phase_table(run), phase_plot(run)
    assert "<td>50.0%</td><td>no verdict</td>" in table
    assert "<td>25.0%</td><td>75.0%</td><td>+25.0 points</td>" in table
    assert plot is not None
    assert [(trace["name"], trace["y"]) for trace in plot.traces] == [
        ("code", [0.5, 0.25]),
        ("textcraft", [None, 0.75]),
    ]
