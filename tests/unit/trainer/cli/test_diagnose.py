import json
from pathlib import Path

from typer.testing import CliRunner

from trainer.cli.app import build_cli

RECORDED = Path(__file__).parents[1] / "diagnose" / "runs"


def run(*words):
    return CliRunner().invoke(build_cli(), ["diagnose", *map(str, words)])


def test_a_healthy_run_ends_with_0():
    done = run(RECORDED / "healthy")
    assert done.exit_code == 0


def test_a_run_with_problems_ends_with_3_and_says_what_to_try():
    done = run(RECORDED / "learning_rate_too_high")
    assert done.exit_code == 3
    assert "problem: almost no episode solves its task" in done.stdout
    assert "warm_start" in done.stdout


def test_scripts_get_json():
    tree = json.loads(run(RECORDED / "learning_rate_too_high", "--json").stdout)
    assert tree["problems"] >= 1
    assert tree["findings"]["no_success"]["severity"] == "problem"


def test_a_folder_that_is_missing_or_no_run_ends_with_1(tmp_path):
    assert run(tmp_path / "none").exit_code == 1
    missing = run(tmp_path)
    assert missing.exit_code == 1
    assert "is not the folder of a run" in missing.stderr
