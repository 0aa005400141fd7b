"""The run files that the pages show, as a user writes them down, with less of everything."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("ray", reason="Ray is not installed")

from tests.harness.documentation import blocks
from tests.harness.sampling import where_changed

pytestmark = [pytest.mark.ray, pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(400)]


def sample(page, *words):
    """The one block of a page with these words in it."""
    (found,) = [each for each in blocks() if each.page == page and all(word in each.text for word in words)]
    return found.text


def trainer(folder, *words):
    main = "from trainer.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", main, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def in_process_boxes(run):
    """The words that the run's service is started with, and boxes that every machine has."""
    return f"service.start={json.dumps([*run.get('service', {}).get('start', []), 'sandbox.kind=process'])}"


def metrics(folder, name):
    lines = (folder / "var" / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["metrics"] for line in lines]


@where_changed("documented_runs")
def test_questions_and_answers_become_a_model_that_was_fine_tuned_on_them(tmp_path):
    (tmp_path / "questions.jsonl").write_text(sample("docs/trainer/recipes.md", '"question"'))
    text = sample("docs/trainer/recipes.md", "questions.demonstrations.jsonl", "[service]")
    (tmp_path / "RUN.toml").write_text(text)
    trainer(tmp_path, "demonstrations", "questions.jsonl")
    few = ["warm_start.steps=2", "tracking.progress=false", in_process_boxes(tomllib.loads(text))]
    trainer(tmp_path, "sft", "RUN.toml", *few)
    assert any("loss/sft" in line for line in metrics(tmp_path, "questions"))


@where_changed("documented_runs")
def test_the_shortest_run_file_trains(tmp_path):
    text = sample("docs/trainer/configuration.md", 'name = "sums"')
    (tmp_path / "RUN.toml").write_text(text)
    few = ["steps=1", "rollout.groups=2", "rollout.group_size=2", "rollout.max_turns=2", "evaluation.limit=2"]
    less = ["rollout.sampling.max_turn_tokens=24", "tracking.progress=false"]
    trainer(tmp_path, "train", "RUN.toml", *few, *less, in_process_boxes(tomllib.loads(text)))
    assert any("time/update" in line for line in metrics(tmp_path, "sums"))
