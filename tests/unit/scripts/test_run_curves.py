"""Metrics of a run become panels of an SVG."""

import json
from xml.etree import ElementTree

import pytest

from scripts.run_curves import main

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def run(tmp_path):
    lines = [
        {"step": step, "time": 0.0, "metrics": {"reward/mean": step / 40, "cost/failed_actions": 0.1}}
        for step in range(5, 45)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "metrics.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def test_each_metric_has_a_panel_and_its_limit(run):
    main(run, run / "images" / "curves.svg", ["reward/mean", "cost/failed_actions=0.03"])
    drawn = ElementTree.parse(run / "images" / "curves.svg").getroot()
    panels = drawn.findall(f"{SVG}g")
    assert len(panels) == 2
    assert [len(panel.findall(f"{SVG}polyline")) for panel in panels] == [2, 2]
    texts = [text.text for panel in panels for text in panel.findall(f"{SVG}text")]
    assert "limit 0.03" in texts
    assert "step 39" in texts


def test_a_metric_that_the_run_does_not_have_is_named(run):
    with pytest.raises(SystemExit, match="no step with cost/turns"):
        main(run, run / "curves.svg", ["cost/turns"])
