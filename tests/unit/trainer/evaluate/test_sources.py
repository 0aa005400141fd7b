from dataclasses import replace

import pytest

from tests.fakes.training import evaluation
from tests.harness.run_folder import write_run
from trainer.errors import ConfigError, DataError
from trainer.evaluate.results import append_evaluation
from trainer.evaluate.sources import read_evaluation, read_named_evaluations
from trainer.report.run_data import read_run_data


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "mine")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "first.json"
    path.write_text(evaluation("alone", 3).to_json() + "\n")
    return path


def test_evaluations_are_named_after_their_files_unless_named(run, file):
    named = read_named_evaluations([str(file), f"rl={run}", str(run)])
    assert list(named) == ["first", "rl", "mine"]
    assert named["first"].successes == 3


def test_the_latest_evaluation_of_a_run_is_taken_unless_another_is_chosen(run):
    assert read_evaluation(str(run)).when == "after"
    assert read_evaluation(f"{run}@before").when == "before"
    assert read_evaluation(f"{run}@0").when == "before"
    assert read_evaluation(str(run / "evaluations.jsonl")).when == "after"


@pytest.mark.parametrize("kept", [True, False], ids=["by the configuration", "by the metrics"])
def test_a_step_is_one_of_reinforcement_learning_as_in_the_report(run, kept):
    """The warm start has ten steps, which the file counts as well."""
    append_evaluation(run / "evaluations.jsonl", replace(evaluation("during", 9), step=20))
    if not kept:
        (run / "run.json").unlink()
    shown = {each.step: each.when for each in read_run_data(run).evaluations}
    assert shown == {0: "before", 10: "during", 30: "after"}
    assert {step: read_evaluation(f"{run}@{step}").when for step in shown} == shown


def test_an_evaluation_that_a_run_does_not_have_is_refused_with_those_that_it_has(run):
    with pytest.raises(ConfigError, match=r"'7'; it has: before \(step 0\), after \(step 30\)"):
        read_evaluation(f"{run}@7")


def test_two_of_one_name_are_refused(file):
    with pytest.raises(ConfigError, match="two evaluations are named 'first'"):
        read_named_evaluations([str(file), str(file)])


def test_what_is_not_there_or_not_an_evaluation_is_refused(tmp_path, file):
    with pytest.raises(ConfigError, match="neither a file of an evaluation nor the folder of a run"):
        read_evaluation(str(tmp_path / "none.json"))
    with pytest.raises(DataError, match="has no evaluations"):
        read_evaluation(str(tmp_path))
    with pytest.raises(ConfigError, match="is one evaluation: leave out @before"):
        read_evaluation(f"{file}@before")
    file.write_text("{}")
    with pytest.raises(DataError, match=r"first.json: not an evaluation"):
        read_evaluation(str(file))
