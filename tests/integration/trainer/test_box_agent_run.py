"""A run whose episodes are played by an agent in their boxes: warm start, steps, weight syncs, evaluation."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("ray", reason="Ray is not installed")

from tests.harness.agent_packages import ROOT
from tests.harness.agent_runs import figures_of
from tests.harness.sampling import where_changed

pytestmark = [
    pytest.mark.ray,
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    where_changed("agents", "test_agents_in_boxes and test_agents_in_served_boxes play episodes"),
]

AGENT = """
import json, os, subprocess, sys, urllib.request
bash = {"name": "bash", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}
body = {
    "model": os.environ["AGENT_MODEL"],
    "messages": [{"role": "user", "content": sys.argv[1]}],
    "tools": [{"type": "function", "function": bash}],
}
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps(body).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
)
with urllib.request.urlopen(request, timeout=120) as answer:
    said = json.load(answer)["choices"][0]["message"]
for call in said.get("tool_calls") or ():
    subprocess.run(json.loads(call["function"]["arguments"]).get("command", "true"), shell=True)
"""
"""Asks the model once, with a tool, and runs the commands that it answers, in the workspace."""
RUN = """
extends = ["{sums}"]
name = "box"
steps = 2

[service]
start = ["sandbox.kind=process"]

[agent]
kind = "box"
command = {command}
timeout_s = 120

[rollout]
groups = 2
group_size = 2
params = {{ interface = "workspace" }}

[warm_start]
demonstrations = "{demonstrations}"
limit = 16
batch = 8
steps = 60

[evaluation]
splits = ["arithmetic_test_easy"]
limit = 4

[tracking]
progress = false
"""


def _demonstrations() -> str:
    """The shell demonstrations of the examples, without the command that ends mini-swe-agent."""
    rows = [
        json.loads(line) for line in (ROOT / "examples/demonstrations/shell.jsonl").read_text().splitlines()
    ]
    return "".join(json.dumps({**row, "messages": row["messages"][:1]}) + "\n" for row in rows)


def test_an_agent_in_its_boxes_trains(tmp_path):
    (tmp_path / "shown.jsonl").write_text(_demonstrations())
    (tmp_path / "sums.toml").write_text((ROOT / "examples" / "sums.toml").read_text())
    command = json.dumps(["python3", "-c", AGENT, "{task}"])
    run = tmp_path / "run.toml"
    run.write_text(RUN.format(sums="sums.toml", command=command, demonstrations="shown.jsonl"))
    trainer = "from trainer.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", trainer, "train", str(run), f"root={tmp_path}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=860,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = figures_of(tmp_path / "box")
    assert (found.episodes, found.graded) == (8, 8)
    assert found.trained == found.sampled > 0
    assert found.difference < 1e-4
    metrics = [
        json.loads(line)["metrics"] for line in (tmp_path / "box/metrics.jsonl").read_text().splitlines()
    ]
    # The agent runs what the demonstrations say, and is graded by the files: all of them are solved.
    assert {row["demonstrations/success"] for row in metrics if "demonstrations/success" in row} == {1.0}
    assert [row["evaluation/failures"] for row in metrics if "evaluation/success" in row] == [0.0, 0.0]
