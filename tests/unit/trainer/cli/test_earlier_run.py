"""An earlier run of the same name: replaced, put back or continued, as the command says."""

import pytest
from typer.testing import CliRunner

from tests.fakes.training import FakeDriver
from trainer.cli.app import build_cli
from trainer.errors import EngineLost

each_command = pytest.mark.parametrize("command", ["train", "evolve"])


def run(*words, driver):
    return CliRunner().invoke(build_cli(), list(map(str, words)), obj=driver)


@each_command
def test_a_run_file_in_the_folder_of_the_earlier_run_is_not_deleted_with_it(run_file, tmp_path, command):
    kept = tmp_path / "runs" / "mine" / "run.toml"
    kept.parent.mkdir(parents=True)
    run_file.rename(kept)
    driver = FakeDriver()
    refused = run(command, kept, "--force", driver=driver)
    assert refused.exit_code == 2
    assert f"{kept} would be deleted with the earlier run" in refused.stderr
    assert driver.calls == []
    assert run(command, kept, "name=other", "--force", driver=driver).exit_code == 0


@each_command
def test_an_earlier_run_that_a_killed_command_set_aside_is_back(run_file, command):
    done = run(command, run_file, driver=FakeDriver(recovered="the earlier run is back"))
    assert "warning: the earlier run is back" in done.stderr


@each_command
def test_a_killed_new_run_is_not_resumed_with_the_earlier_one(run_file, command):
    driver = FakeDriver(recovered="the earlier run is back")
    refused = run(command, run_file, "--resume", driver=driver)
    assert refused.exit_code == 2
    assert "start the new one with --force, or repeat --resume" in refused.stderr.replace("\n", " ")
    assert driver.calls == []


@each_command
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ([], "Then continue with --resume."),
        (["--force"], "if it had begun, and start it again with --force otherwise."),
    ],
)
def test_how_a_failed_run_continues_depends_on_whether_an_earlier_one_may_be_back(
    run_file, command, words, hint
):
    driver = FakeDriver(error=EngineLost("it does not start"))
    failed = run(command, run_file, *words, driver=driver)
    assert hint in failed.stderr.replace("\n", " ")
