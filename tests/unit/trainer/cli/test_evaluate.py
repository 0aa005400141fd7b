"""The files of an evaluation are checked before anything is played."""

import pytest
from typer.testing import CliRunner

from tests.fakes.training import FakeDriver
from trainer.cli.app import build_cli
from trainer.errors import Stalled
from trainer.evaluate.results import EvaluationResult, TaskOutcome


def run(*words, driver=None):
    return CliRunner().invoke(build_cli(), list(map(str, words)), obj=driver or FakeDriver())


@pytest.fixture
def run_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(f'root = "{tmp_path}"\n[evaluation]\nsplits = ["test"]\n')
    return file


@pytest.mark.parametrize("words", [[], ["--policy", "random"]], ids=["model", "policy"])
def test_evaluate_makes_the_folders_of_its_files(run_file, tmp_path, words):
    file, page = tmp_path / "a" / "b.json", tmp_path / "c" / "d" / "page.html"
    assert run("evaluate", run_file, *words, "-o", file, "--html", page).exit_code == 0
    assert file.exists()
    assert page.exists()


@pytest.mark.parametrize("option", ["--output", "--html"])
@pytest.mark.parametrize("words", [[], ["--policy", "random"]], ids=["model", "policy"])
def test_evaluate_plays_nothing_for_a_file_that_cannot_be_written(run_file, tmp_path, words, option):
    driver = FakeDriver()
    for file in (tmp_path, run_file / "result"):
        refused = run("evaluate", run_file, *words, option, file, driver=driver)
        assert refused.exit_code == 2
        assert f"{file} cannot be written" in refused.stderr.replace("\n", "")
    assert driver.calls == []


@pytest.mark.parametrize("option", ["--output", "--html"])
def test_a_dash_is_no_file_of_an_evaluation(run_file, tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    driver = FakeDriver()
    refused = run("evaluate", run_file, option, "-", driver=driver)
    assert (refused.exit_code, "is not standard output here" in refused.stderr) == (2, True)
    assert (driver.calls, [*tmp_path.iterdir()]) == ([], [run_file])


def test_an_evaluation_that_fails_leaves_files_as_they_were(run_file, tmp_path):
    before, new = tmp_path / "before.json", tmp_path / "new.json"
    before.write_text("earlier")
    for file in (before, new):
        failing = FakeDriver(error=Stalled("nobody plays"))
        assert run("evaluate", run_file, "-o", file, driver=failing).exit_code == 1
    assert before.read_text() == "earlier"
    assert not new.exists()


def test_groups_of_one_name_have_rows_of_their_own(run_file):
    """A split and a difficulty have the same name, and other tasks."""
    solved = TaskOutcome("a", "hard", 1, 1, 1.0, split="easy", category="sums")
    unsolved = TaskOutcome("b", "easy", 1, 0, 0.0, split="hard")
    result = EvaluationResult(0, "alone", "easy+hard", (solved, unsolved), "code")
    done = run("evaluate", run_file, driver=FakeDriver(result=result))
    rows = {tuple(line.split()[:2]): line.split()[4] for line in done.stdout.splitlines() if "%" in line}
    assert rows[("split", "easy")] == rows[("difficulty", "hard")] == "100%"
    assert rows[("split", "hard")] == rows[("difficulty", "easy")] == "0%"
    assert ("category", "not") in rows


@pytest.mark.parametrize("option", ["--output", "--html"])
def test_evaluate_does_not_replace_its_run_file(run_file, option):
    driver, before = FakeDriver(), run_file.read_text()
    refused = run("evaluate", run_file, option, run_file, driver=driver)
    assert refused.exit_code == 2
    assert "would replace" in refused.stderr
    assert (run_file.read_text(), driver.calls) == (before, [])


@pytest.mark.parametrize("option", ["--output", "--html"])
def test_a_result_is_not_kept_where_the_next_evaluation_would_delete_it(run_file, tmp_path, option):
    driver, file = FakeDriver(), tmp_path / "run.evaluation" / "before.json"
    for words in ([], ["--policy", "random"]):
        refused = run("evaluate", run_file, *words, option, file, driver=driver)
        assert refused.exit_code == 2
        assert "which the next evaluation replaces" in refused.stderr.replace("\n", " ")
    assert (file.parent.exists(), driver.calls) == (False, [])


def test_results_and_page_of_an_evaluation_are_two_files(run_file, tmp_path):
    driver, file = FakeDriver(), tmp_path / "both"
    assert run("evaluate", run_file, "-o", file, "--html", file, driver=driver).exit_code == 2
    assert driver.calls == []


def test_a_run_that_a_killed_start_set_aside_is_evaluated(run_file, tmp_path):
    class Recovering(FakeDriver):
        def recover(self, config):
            (config.folder / "model").mkdir(parents=True)
            return "the earlier run is back"

    done = run("evaluate", run_file, "name=mine", driver=Recovering())
    assert "warning: the earlier run is back" in done.stderr
    assert f"evaluating {tmp_path / 'mine' / 'model'}" in done.stderr.replace("\n", "")
    other = run("evaluate", run_file, "--model", tmp_path, driver=FakeDriver(recovered="is back"))
    assert "is back" not in other.stderr


def test_a_policy_that_cannot_be_evaluated_is_not_announced(run_file):
    driver = FakeDriver()
    refused = run("evaluate", run_file, "--policy", "foo", driver=driver)
    assert (refused.exit_code, driver.calls) == (2, [])
    assert "unknown policy 'foo'" in refused.stderr
    assert "evaluating" not in refused.stderr


def test_warnings_of_an_evaluation_are_shown(run_file):
    done = run("evaluate", run_file, driver=FakeDriver(warnings=["2 of 3 held-out tasks are trained on"]))
    assert (done.exit_code, "warning: 2 of 3 held-out tasks" in done.stderr) == (0, True)
