"""The files of an evaluation are checked before anything is played."""

import pytest
from typer.testing import CliRunner

from tests.fakes.training import FakeDriver
from trainer.cli.app import build_cli
from trainer.errors import Stalled


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


def test_an_evaluation_that_fails_leaves_files_as_they_were(run_file, tmp_path):
    before, new = tmp_path / "before.json", tmp_path / "new.json"
    before.write_text("earlier")
    for file in (before, new):
        failing = FakeDriver(error=Stalled("nobody plays"))
        assert run("evaluate", run_file, "-o", file, driver=failing).exit_code == 1
    assert before.read_text() == "earlier"
    assert not new.exists()
