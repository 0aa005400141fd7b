import json
import re

from trainer.evaluate.intervals import Interval
from trainer.evaluate.results import EpisodeTotals, EvaluationResult, TaskOutcome
from trainer.evaluate.summary import MeanEstimate, summary_of
from trainer.report.evaluation_page import write_evaluation
from trainer.report.evaluation_plots import interval_bars
from trainer.report.evaluation_text import mean_text

COSTS = EpisodeTotals(reward=1.0, turns=8, tokens=400, seconds=6.0)


def page_of(path, **more):
    tasks = (
        TaskOutcome("easy-1", "easy", 4, 4, 1.0, category="sums", totals=COSTS),
        TaskOutcome(
            "<hard>-1", "hard", 4, 1, 0.25, category="sums", totals=COSTS, causes={"max_turns": 3}, **more
        ),
    )
    result = EvaluationResult(0, "alone", "test", tasks, "code", 12.0, "var/runs/mine/model")
    write_evaluation(result, summary_of(result, (1, 4)), path)
    text = path.read_text()
    figures = json.loads(re.search(r'id="figures-data">(.*?)</script>', text, re.DOTALL)[1])
    return text, {figure["title"]: figure["data"] for figure in figures}


def test_a_page_has_figures_plots_and_tasks(tmp_path):
    text, figures = page_of(tmp_path / "page.html", failures=2, failure_classes={"sandbox": 2})
    assert set(figures) >= {"Success", "Success by difficulty", "pass@k", "Ends of episodes"}
    assert figures["Success by difficulty"][0]["y"] == [1.0, 0.25]
    assert figures["pass@k"][0]["x"] == [1, 4]
    ends = {trace["name"]: trace["y"] for trace in figures["Ends of episodes"]}
    assert ends == {"solved": [5 / 8], "max turns": [3 / 8]}
    assert "2 (sandbox 2)" in text
    assert "var/runs/mine/model" in text


def test_names_of_tasks_cannot_end_the_page(tmp_path):
    text, _ = page_of(tmp_path / "page.html")
    assert "&lt;hard&gt;-1" in text
    assert "<hard>" not in text


def test_unsolved_tasks_come_first(tmp_path):
    text, _ = page_of(tmp_path / "page.html")
    assert text.index("&lt;hard&gt;-1") < text.index("easy-1")


def test_a_mean_of_one_task_is_shown_without_an_interval():
    one, several = MeanEstimate(2.0, None, 1), MeanEstimate(2.0, Interval(1.5, 3.0), 4)
    assert (mean_text(one, 1), mean_text(several, 1)) == ("2.0", "2.0 (1.5 to 3.0)")
    bars = interval_bars({"one": one, "several": several}, "blue")
    assert (bars["y"], bars["error_y"]["array"]) == ([2.0, 2.0], [None, 1.0])
