import json
import re

import pytest

from tests.harness.run_folder import with_secrets, write_metrics, write_run
from trainer.errors import DataError
from trainer.evaluate.results import EvaluationResult, TaskOutcome, append_evaluation
from trainer.report.comparison import write_comparison


@pytest.fixture
def runs(tmp_path):
    """Two runs that differ in a setting."""
    folders = [write_run(tmp_path / name) for name in ("one", "other")]
    for folder, rate in zip(folders, (1e-6, 2e-6), strict=True):
        config = json.loads((folder / "run.json").read_text())
        config["name"] = folder.name
        config["learner"]["optimizer"]["learning_rate"] = rate
        (folder / "run.json").write_text(json.dumps(config))
    return folders


def page_of(folders, tmp_path):
    return write_comparison(folders, tmp_path / "both.html").read_text(encoding="utf-8")


def figures(page):
    (text,) = re.findall(r'id="figures-data">(.*?)</script>', page)
    return {figure["title"]: figure for figure in json.loads(text)}


def test_each_figure_has_a_line_for_each_run(runs, tmp_path):
    drawn = figures(page_of(runs, tmp_path))
    assert {"Reward", "Success on held-out tasks", "Entropy", "Loss: policy"} <= drawn.keys()
    for figure in drawn.values():
        assert [trace["name"] for trace in figure["data"]] == ["one", "other"]
        assert figure["layout"]["xaxis"]["title"]["text"]
        assert figure["layout"]["yaxis"]["title"]["text"]


def test_runs_stand_side_by_side_with_the_settings_that_differ(runs, tmp_path):
    page = page_of(runs, tmp_path)
    assert "<th>success on held-out tasks</th><td>20.0% → 70.0%</td><td>20.0% → 70.0%</td>" in page
    settings = page.partition("Settings that differ")[2].partition("</section>")[0]
    assert "<th>learner.optimizer.learning_rate</th><td>1e-06</td><td>2e-06</td>" in settings
    assert settings.count("<tr>") == 2


def test_settings_that_differ_in_a_secret_are_named_without_it(runs, tmp_path):
    for folder, secret in zip(runs, ("sk-live-1", "sk-live-2"), strict=True):
        with_secrets(folder, secret)
    page = page_of(runs, tmp_path)
    assert "sk-live" not in page
    hidden = "<td>not shown</td><td>not shown</td>"
    assert f"<th>agent.environment.SEARCH_API_KEY</th>{hidden}" in page
    assert f"<th>agent.command</th>{hidden}" in page


def test_runs_on_given_data_are_compared_over_its_steps(tmp_path):
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
        write_metrics(folder, {"loss/preferences": 0.6, "preferences/accuracy": 0.7, "time/update": 1.0})
    page = page_of(folders, tmp_path)
    drawn = figures(page)
    for title in ("Loss on given data: preferences", "Preferences on the right side"):
        assert [trace["name"] for trace in drawn[title]["data"]] == ["one", "other"]
        assert drawn[title]["layout"]["xaxis"]["title"]["text"] == "step on given data"
    assert "<th>steps on given data</th><td>30</td><td>30</td>" in page


def test_success_on_different_held_out_tasks_is_not_compared_silently(runs, tmp_path):
    title = "Success on held-out tasks"
    assert figures(page_of(runs, tmp_path))[title]["data"][0]["name"] == "one"
    file = runs[1] / "evaluations.jsonl"
    file.write_text(file.read_text().replace("arithmetic_test", "programs_test"))
    page = page_of(runs, tmp_path)
    assert [trace["name"] for trace in figures(page)[title]["data"]] == [
        "one, on code: arithmetic_test (10 tasks)",
        "other, on code: programs_test (10 tasks)",
    ]
    assert "The runs were evaluated on different tasks" in page
    cells = "<td>code: arithmetic_test (10 tasks)</td><td>code: programs_test (10 tasks)</td>"
    assert f"<th>held-out tasks</th>{cells}" in page


def test_two_sources_of_one_environment_are_other_tasks_than_one(runs, tmp_path):
    for folder, sources in zip(runs, (("",), ("easy", "hard")), strict=True):
        tasks = tuple(TaskOutcome("t", "", 1, 1, 1.0, source=name) for name in sources)
        result = EvaluationResult(40, "after", "test", tasks, "code")
        append_evaluation(folder / "evaluations.jsonl", result)
    assert "The runs were evaluated on different tasks" in page_of(runs, tmp_path)


def test_runs_of_one_name_are_named_by_their_folders(tmp_path):
    folders = [write_run(tmp_path / part / "same") for part in ("a", "b")]
    drawn = figures(page_of(folders, tmp_path))
    assert [trace["name"] for trace in drawn["Reward"]["data"]] == list(map(str, folders))


def test_a_folder_without_a_run_is_refused(runs, tmp_path):
    with pytest.raises(DataError, match="is not the folder of a run"):
        write_comparison([runs[0], tmp_path], tmp_path / "both.html")
