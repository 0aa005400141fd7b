import json
import re

from trainer.report.sweep_page import SweepRow, write_sweep


def row(rate, size, value):
    values = {"learner.optimizer.learning_rate": rate, "rollout.group_size": size}
    return SweepRow(f"{rate}-{size}", values, value, None, None, ("done",))


def test_each_setting_has_a_sensitivity_plot_with_the_mean_of_each_value(tmp_path):
    rows = [row("1e-4", "4", 0.2), row("1e-3", "4", 0.6), row("1e-4", "8", 0.4), row("1e-3", "8", None)]
    text = write_sweep("Sweep", "success", ("state",), rows, tmp_path / "page.html").read_text()
    figures = json.loads(re.search(r'id="figures-data">(.*?)</script>', text, re.DOTALL)[1])
    rates, sizes = figures
    assert rates["layout"]["xaxis"]["type"] == "log"
    assert rates["data"][0]["x"] == [1e-4, 1e-3, 1e-4]
    assert rates["data"][1]["x"] == [1e-4, 1e-3]
    assert [round(value, 6) for value in rates["data"][1]["y"]] == [0.3, 0.6]
    assert sizes["layout"]["xaxis"]["type"] == "-"
    assert "1e-3-8" in text


def test_values_that_are_no_numbers_are_categories(tmp_path):
    rows = [
        SweepRow(kind, {"algorithm.loss.kind": kind}, value, None, None, ())
        for kind, value in (("ppo", 0.5), ("gspo", 0.25))
    ]
    text = write_sweep("Sweep", "success", (), rows, tmp_path / "page.html").read_text()
    (figure,) = json.loads(re.search(r'id="figures-data">(.*?)</script>', text, re.DOTALL)[1])
    assert figure["data"][1]["x"] == ["ppo", "gspo"]
