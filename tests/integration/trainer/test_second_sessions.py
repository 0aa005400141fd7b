"""A run in which the policy plays both parties, each in a session of its own, on real engine and boxes."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("ray", reason="Ray is not installed")

from tests.harness.sampling import where_changed

from .test_documented_runs import trainer

pytestmark = [pytest.mark.ray, pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(400)]

RUN = """
name = "two"
root = "runs"
steps = 2
service = {{ start = ["sandbox.kind=process"] }}
model = {{ kind = "tiny", layers = 2, context = 8192 }}
chat = {{ tools = "none" }}
tasks = {{ environment = "{environment}", splits = ["train"], limit = 4 }}
algorithm = {{ drop_flat_groups = false, advantage = {{ kind = "return_to_go", baseline = "none" }} }}
tracking = {{ progress = false, report = false }}

[rollout]
groups = 2
group_size = 2
max_turns = 4
params = {params}
sampling = {{ max_turn_tokens = 16 }}
counterpart = {{ kind = "policy", {counterpart} }}
"""


def two_steps(folder, environment, params, counterpart):
    """The episodes of a run of two steps, none of which failed."""
    text = RUN.format(environment=environment, params=params, counterpart=counterpart)
    (folder / "run.toml").write_text(text)
    trainer(folder, "train", "run.toml")
    metrics, groups = (
        [json.loads(line) for line in (folder / "runs" / "two" / name).read_text().splitlines()]
        for name in ("metrics.jsonl", "trajectories.jsonl")
    )
    assert sum("time/update" in line["metrics"] for line in metrics) == 2
    episodes = [each for group in groups for each in group["trajectories"]]
    assert len(episodes) == 8
    assert all(each["failure"] is None for each in episodes)
    return episodes


def returns_of_samples(folder):
    """The return of each episode of the batches; without a baseline, each token has it as its advantage."""
    lines = (folder / "runs" / "two" / "advantages.jsonl").read_text().splitlines()
    found = [each for line in lines for each in json.loads(line)["advantages"].items()]
    return {name.partition("#")[0]: sum({value for value, _ in runs}) for name, runs in found}


def said_by_counterpart(episode):
    """The answers of the counterpart, as its own session shows them."""
    return [line["content"] for line in episode["lines"] if line["role"] == "counterpart: assistant"]


@where_changed("counterparts", "the test after this one plays both sides, and learns from both")
def test_the_policy_serves_a_customer_whom_it_plays_itself(tmp_path):
    episodes = two_steps(tmp_path, "bike_rental", '{ user = "model" }', "trained = false")
    for each in episodes:
        assert said_by_counterpart(each)
        assert not any(segment["opponent"] for segment in each["segments"])


def test_the_policy_learns_from_both_sides_of_its_games_against_itself(tmp_path):
    params, counterpart = '{ opponent = "model" }', 'trained = true, credit = "zero_sum"'
    episodes = two_steps(tmp_path, "openspiel", params, counterpart)
    scores = {each["id"]: each["score"] for each in episodes}
    returns = returns_of_samples(tmp_path)
    theirs = {name.removesuffix("/opponent"): value for name, value in returns.items() if "/" in name}
    own = {name: value for name, value in returns.items() if "/" not in name}
    assert own == {name: scores[name] for name in own}
    assert theirs == {name: -scores[name] for name in theirs}
    assert own
    assert -1.0 in theirs.values()
