import json
import re
from pathlib import Path

from sandbox_settings import shown_toml
from tests.fakes.evolution import FakeEvolutionListener, FakePhases
from trainer.config import RunConfig
from trainer.evaluate.results import EvaluationResult, TaskOutcome
from trainer.evolve.evolution import Evolution
from trainer.evolve.folder import EvolutionFolder
from trainer.evolve.history import read_history
from trainer.evolve.report import write_evolution_report


def test_the_report_shows_success_by_iteration_and_why_models_were_kept(tmp_path: Path) -> None:
    run = RunConfig.model_validate({"evaluation": {"splits": ["test"]}, "evolve": {"iterations": 2}})
    folder = EvolutionFolder(tmp_path)
    phases, listener = FakePhases([9, 2, 9]), FakeEvolutionListener()
    Evolution(run.evolution_settings, folder, phases, listener, lambda: None).run()
    page = write_evolution_report(folder, "mine", shown_toml(run)).read_text()
    assert "Success on held-out tasks" in page
    assert "<td>rolled back</td>" in page
    assert "<td>kept</td>" in page
    assert "iteration 1: rolled back: -70.0 points" in page
    assert "%%" not in page.partition("<script>")[0]


def test_a_copy_of_an_iteration_is_none_of_the_evolution(tmp_path: Path) -> None:
    folder = EvolutionFolder(tmp_path)
    for number in (0, 1, 10):
        folder.open_iteration(number)
    for copy in ("iteration_1.bak", "iteration_1_old", "iteration_01", "iteration_"):
        (tmp_path / copy).mkdir()
    assert [each.number for each in folder.iterations()] == [0, 1, 10]
    assert [each.number for each in read_history(folder)] == [0, 1, 10]


def test_the_report_of_an_evolution_that_has_just_begun_has_no_plots(tmp_path: Path) -> None:
    folder = EvolutionFolder(tmp_path)
    folder.open_iteration(0)
    assert write_evolution_report(folder, "mine", "").exists()


def test_a_model_without_a_verdict_is_no_point_of_the_report(tmp_path: Path) -> None:
    run = RunConfig.model_validate({"evaluation": {"splits": ["test"]}, "evolve": {"iterations": 1}})
    folder = EvolutionFolder(tmp_path)
    Evolution(run.evolution_settings, folder, FakePhases([2, 9]), FakeEvolutionListener(), lambda: None).run()
    lost = EvaluationResult(0, "alone", "test", (TaskOutcome("a", "", 0, 0, 0.0, failures=4),))
    folder.open_iteration(1).write_evaluation(lost)
    page = write_evolution_report(folder, "mine", "").read_text()
    assert "<td>no verdict</td><td></td>" in page
    (text,) = re.findall(r'id="figures-data">(.*?)</script>', page)
    assert json.loads(text)[0]["data"][0]["x"] == [0]
    assert read_history(folder)[1].to_json()["held_out"] == {
        "success": None,
        "low": None,
        "high": None,
        "episodes": 0,
    }


def test_results_of_iterations_are_given_to_programs_as_json(tmp_path: Path) -> None:
    run = RunConfig.model_validate({"evaluation": {"splits": ["test"]}, "evolve": {"iterations": 1}})
    folder = EvolutionFolder(tmp_path)
    Evolution(run.evolution_settings, folder, FakePhases([2, 9]), FakeEvolutionListener(), lambda: None).run()
    base, first = (result.to_json() for result in read_history(folder))
    assert base["decision"] is None
    assert first["explored"] == {
        "file": str(tmp_path / "iteration_1" / "groups.jsonl"),
        "episodes": 2,
        "solved": 1,
        "failures": 0,
        "by_temperature": {},
        "reflected": 0,
        "unreflected": {},
        "mended": 0,
    }
    assert isinstance(first["held_out"], dict)
    assert first["held_out"]["success"] == 0.9
