"""Tables keep words and figures whole, at the width of any terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from trainer.cli.comparison_tables import comparison_view
from trainer.cli.evaluation_tables import evaluation_view
from trainer.cli.wide_tables import WideTable
from trainer.evaluate.model_comparison import compare_models
from trainer.evaluate.results import EpisodeTotals, EvaluationResult, TaskOutcome
from trainer.evaluate.summary import summary_of
from trainer.report.model_comparison_text import PAIR_COLUMNS, model_columns, model_rows, pair_rows

WIDTHS = (200, 120, 80, 60, 40)
SPLITS = ("programs_test", "arithmetic_test", "humaneval")
INTERVAL = re.compile(r"\([^)]*\)")


def shown(view: RenderableType, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(view)
    return console.file.getvalue()


def evaluated(solved: int) -> EvaluationResult:
    """Thirty tasks of three splits with four episodes each, of which the first are solved at times."""
    tasks = tuple(
        TaskOutcome(
            f"t{number}",
            ("medium", "hard")[number % 3 == 0],
            episodes=4,
            successes=(1 + number % 4) * (number < solved),
            mean_score=0.5,
            environment="code",
            split=SPLITS[number % 3],
            category=("sums", "family_relationships")[number % 2],
            totals=EpisodeTotals(1.0 + number, 12.0 + number, 900.0 + 40 * number, 80.0 + number),
            causes={"wrong_answer": 1},
        )
        for number in range(30)
    )
    return EvaluationResult(0, "alone", "+".join(SPLITS), tasks, "code")


def words_of(*cells: str) -> set[str]:
    return {word for cell in cells for word in cell.split()}


@pytest.mark.parametrize("width", WIDTHS)
def test_a_comparison_has_each_word_whole(width: int) -> None:
    comparison = compare_models({"before": evaluated(9), "reference": evaluated(25)})
    text = shown(comparison_view(comparison), width)
    assert max(map(len, text.splitlines())) <= width
    tables = (*model_rows(comparison), model_columns(comparison), *pair_rows(comparison.pairs), PAIR_COLUMNS)
    assert words_of(*(cell for row in tables for cell in row)) <= words_of(text)


@pytest.mark.parametrize("width", WIDTHS)
def test_an_evaluation_with_several_values_of_pass_at_k_has_each_word_whole(width: int) -> None:
    result = evaluated(20)
    text = shown(evaluation_view(result, summary_of(result, (1, 2, 4))), width)
    assert max(map(len, text.splitlines())) <= width
    heads = "tasks episodes solved success pass@2 pass@4 score failed mean of an episode reward turns tokens"
    names = "all programs_test arithmetic_test humaneval category family_relationships difficulty medium hard"
    assert words_of(heads, names, "seconds unsolved because wrong answer") <= words_of(text)
    assert "\u2026" not in text


@pytest.mark.parametrize("width", [80, 60])
def test_an_interval_stands_beside_its_estimate_at_the_width_of_a_terminal(width: int) -> None:
    comparison = compare_models({"before": evaluated(9), "reference": evaluated(25)})
    text = shown(comparison_view(comparison), width)
    for row in (*model_rows(comparison), *pair_rows(comparison.pairs)):
        assert all(cell in text for cell in row if INTERVAL.search(cell))


def test_each_of_several_tables_has_the_names() -> None:
    table = WideTable(("model", "first", "second"), [("a", "1" * 20, "2" * 20), ("b", "3" * 20, "4" * 20)])
    lines = [line.split() for line in shown(table, 40).splitlines() if line.strip(" \u2500")]
    assert lines == [
        *(["model", "first"], ["a", "1" * 20], ["b", "3" * 20]),
        *(["model", "second"], ["a", "2" * 20], ["b", "4" * 20]),
    ]
    lines = [line.split() for line in shown(table, 80).splitlines() if line.strip(" \u2500")]
    assert lines == [["model", "first", "second"], ["a", "1" * 20, "2" * 20], ["b", "3" * 20, "4" * 20]]


def test_names_are_wrapped_where_that_saves_a_table() -> None:
    table = WideTable(("tasks", "first", "second"), [("the name of a few words", "1" * 12, "2" * 12)])
    lines = [line.split() for line in shown(table, 40).splitlines() if line.strip(" \u2500")]
    assert lines[:2] == [["tasks", "first", "second"], ["the", "1" * 12, "2" * 12]]
    assert [word for line in lines[2:] for word in line] == ["name", "of", "a", "few", "words"]


def test_an_interval_without_room_is_below_its_estimate() -> None:
    table = WideTable(("model", "success"), [("a_name_of_a_model", "62.0% (55.0 to 68.0)")])
    lines = [line.split() for line in shown(table, 40).splitlines()]
    assert ["a_name_of_a_model", "62.0%"] in lines
    assert ["(55.0", "to", "68.0)"] in lines


def test_a_name_that_is_longer_than_a_terminal_is_wide_is_printed_whole_on_several_lines() -> None:
    result = replace(evaluated(3), split="s" * 60)
    text = shown(evaluation_view(result, summary_of(result, ())), 40)
    assert sum(line.count("s" * 10) for line in text.splitlines()) >= 4
    assert max(map(len, text.splitlines())) <= 40


def test_a_table_without_rows_has_its_heads() -> None:
    assert shown(WideTable(("trial", "steps"), []), 40).split()[:2] == ["trial", "steps"]
