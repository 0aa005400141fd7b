from pathlib import Path

import pytest

from trainer.evaluate.results import EvaluationResult, TaskOutcome
from trainer.report.overview import evaluation_table
from trainer.report.run_data import RunData
from trainer.report.special_plots import held_out


def result(difficulty: str, *, step: int = 0) -> EvaluationResult:
    """A task of the difficulty, unsolved, and two easy ones, solved."""
    tasks = (
        TaskOutcome(str(number), name, 1, solved, float(solved))
        for number, (name, solved) in enumerate(((difficulty, 0), ("easy", 1), ("easy", 1)))
    )
    return EvaluationResult(step, "during", "test", tuple(tasks))


@pytest.mark.parametrize("difficulty", ["all", "all tasks"])
def test_a_difficulty_of_any_name_has_a_line_beside_that_of_all_tasks(difficulty: str) -> None:
    figure = held_out([result(difficulty)])
    assert figure is not None
    assert [(trace["name"], trace["y"]) for trace in figure.traces] == [
        ("all tasks", [pytest.approx(2 / 3)]),
        (difficulty, [0.0]),
        ("easy", [1.0]),
    ]


@pytest.mark.parametrize("difficulty", ["all of test", "all tasks"])
def test_a_difficulty_of_any_name_has_a_row_beside_that_of_all_tasks(difficulty: str) -> None:
    evaluations = (result(difficulty), result(difficulty, step=1))
    table = evaluation_table(RunData(Path(), "run", {}, {}, evaluations, None, None, {}))
    assert (table.count("<tr>"), table.count("<li>")) == (7, 3)
    assert "66.7%" in table
