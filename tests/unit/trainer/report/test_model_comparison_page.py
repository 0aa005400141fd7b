import json
import re
from dataclasses import replace

from tests.fakes.training import evaluation
from trainer.evaluate.model_comparison import compare_models
from trainer.report.model_comparison_page import write_model_comparison
from trainer.report.model_comparison_text import comparison_markdown


def compared():
    better = evaluation("alone", 9)
    unsolved = tuple(
        replace(task, causes={} if task.successes else {"max_turns": 1}) for task in better.tasks
    )
    return compare_models({"initial <x>": evaluation("alone", 1), "trained": replace(better, tasks=unsolved)})


def test_a_page_has_models_differences_and_tasks(tmp_path):
    text = write_model_comparison(compared(), tmp_path / "page.html").read_text()
    figures = json.loads(re.search(r'id="figures-data">(.*?)</script>', text, re.DOTALL)[1])
    data = {figure["title"]: figure["data"] for figure in figures}
    assert data["Success"][0]["y"] == [0.1, 0.9]
    assert data["Differences"][0]["x"] == [80.0]
    assert "initial &lt;x&gt;" in text
    assert "initial <x>" not in text
    assert "+80.0" in text


def test_markdown_has_the_same_tables():
    text = comparison_markdown(compared())
    assert "| trained - initial <x> | 10 | +80.0 (" in text
    assert "| max turns | 0 | 1 |" in text
    assert "McNemar" in text
