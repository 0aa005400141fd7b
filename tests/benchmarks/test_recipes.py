"""The table of the recipes, from folders of runs that were written by hand."""

import json
from pathlib import Path

import pytest

from tests.benchmarks.recipes import RECIPES, Recipe, evaluated, run_file, run_name, summary
from trainer.config.reading import read_run
from trainer.evaluate.results import EvaluationResult, TaskOutcome, append_evaluation
from trainer.evolve.folder import EvolutionFolder
from trainer.evolve.records import Decision


def evaluation(step: int, when: str, solved: int) -> EvaluationResult:
    tasks = tuple(TaskOutcome(f"t/{place}", "", 1, int(place < solved), 0.0) for place in range(10))
    return EvaluationResult(step, when, "test", tasks)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_run_file_that_is_there_with_words_that_it_takes(name: str) -> None:
    recipe = RECIPES[name]
    models = [f"{key}=somewhere" for key in recipe.models]
    read_run(run_file(recipe), [f"name={run_name(name, 0)}", *models, *recipe.words])
    assert recipe.needs in {"", *RECIPES}


def test_a_run_is_used_again_for_the_same_settings_only() -> None:
    plain, changed = run_name("grpo", 0), run_name("grpo", 0, ["steps=1"])
    assert plain == run_name("grpo", 0)
    assert plain != changed
    assert RECIPES["distillation"].needs == "grpo"
    assert run_name("distillation", 0) != run_name("distillation", 0, ["steps=1"])


def test_a_run_has_the_success_before_and_after_and_the_metrics_that_are_watched(tmp_path: Path) -> None:
    for step, when, solved in ((0, "before", 3), (20, "during", 9), (40, "after", 7)):
        append_evaluation(tmp_path / "evaluations.jsonl", evaluation(step, when, solved))
    lines = [{"step": step, "time": 0.0, "metrics": {"cost/a": step / 10}} for step in range(10)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert evaluated(tmp_path, Recipe("x", watched=("cost/a", "cost/b"))) == {
        "before": 0.3,
        "after": 0.7,
        "cost/a": [0.2, 0.7],
        "cost/b": [],
    }


def test_an_evolution_has_the_success_of_the_model_that_was_kept_last(tmp_path: Path) -> None:
    folder = EvolutionFolder(tmp_path)
    for number, solved, kept in ((0, 3, None), (1, 6, True), (2, 5, False), (3, None, False)):
        iteration = folder.open_iteration(number)
        if solved is not None:
            iteration.write_evaluation(evaluation(number, "alone", solved))
        if kept is not None:
            iteration.write(Decision(kept, "by hand"))
    found = evaluated(tmp_path, Recipe("x", command="evolve"))
    assert found == {"before": 0.3, "after": 0.6, "iterations": [0.3, 0.6, 0.5, 0.6]}


def test_the_interval_is_that_of_the_change_over_seeds() -> None:
    runs = [
        {"recipe": "a", "seed": 0, "before": 0.3, "after": 0.7, "minutes": 2.0},
        {"recipe": "a", "seed": 1, "before": 0.2, "after": 0.7, "minutes": 9.0},
        {"recipe": "a", "seed": 2, "before": 0.1, "after": 0.7, "minutes": 3.0},
        {"recipe": "b", "seed": 0, "before": 0.5, "after": 0.5, "minutes": 1.0},
    ]
    first, second = summary(runs)
    assert (first["before"], first["after"], first["change"], first["minutes"]) == (0.2, 0.7, 0.5, 3.0)
    assert first["half_width"] == pytest.approx(4.303 * 0.1 / 3**0.5, abs=1e-4)
    assert (second["seeds"], second["half_width"]) == (1, None)
