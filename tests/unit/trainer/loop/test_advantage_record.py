"""The advantages of a run are kept as runs of tokens, by group."""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest

from tests.harness.run_folder import trajectory
from trainer.loop.advantage_record import FILE, AdvantageRecord, half_floats, run_lengths
from trainer.rollout.samples import samples_of


def sample(group, member, values):
    episode = trajectory(group, member)
    (made,) = samples_of(episode, [episode.reward], group)
    return replace(made, advantages_T=np.array(values, dtype=np.float32))


@pytest.mark.parametrize(
    ("values", "runs"),
    [
        ([0, 0, 0.5, 0.5, 0.5], [(0.0, 2), (0.5, 3)]),
        ([1, 2, 2, 1], [(1.0, 1), (2.0, 2), (1.0, 1)]),
        ([1 / 3, 1 / 3], [(0.333333, 2)]),
        ([], []),
    ],
)
def test_tokens_with_one_value_are_a_run(values, runs):
    assert run_lengths(np.array(values, dtype=np.float32)) == runs


def test_each_group_is_a_line_with_all_its_samples(tmp_path):
    record = AdvantageRecord(tmp_path)
    record.write(0, [sample(3, 0, [0, 0, 1, 1, 1]), sample(3, 1, [0, 0, -1, -1, -1]), sample(4, 0, [0] * 5)])
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert lines[0] == {
        "group": 3,
        "step": 0,
        "advantages": {"3.0": [[0.0, 2], [1.0, 3]], "3.1": [[0.0, 2], [-1.0, 3]]},
    }
    assert [line["group"] for line in lines] == [3, 4]


def test_a_line_that_a_killed_writer_left_unfinished_is_cut_off(tmp_path):
    (tmp_path / FILE).write_text('{"group": 1, "step": 0, "adv')
    AdvantageRecord(tmp_path).write(0, [sample(1, 0, [0, 0, 1, 1, 1])])
    (line,) = (tmp_path / FILE).read_text().splitlines()
    assert json.loads(line)["advantages"] == {"1.0": [[0.0, 2], [1.0, 3]]}


def test_samples_without_advantages_are_left_out(tmp_path):
    AdvantageRecord(tmp_path).write(0, [replace(sample(1, 0, [0] * 5), advantages_T=None)])
    assert (tmp_path / FILE).read_text() == ""


def floats(text):
    return np.frombuffer(base64.b64decode(text), dtype="<f2").tolist()


def test_trained_tokens_have_the_learners_ratio_to_the_engine_and_its_entropy(tmp_path):
    """Of the sample's five tokens the last three are sampled, with log-probabilities -0.5, -1 and -1.5."""
    trained = replace(
        sample(1, 0, [0, 0, 1, 1, 1]),
        old_logprobs_T=np.array([0, 0, -0.25, -1, -2], dtype=np.float32),
        entropy_T=np.array([0, 0, 0.5, 1, 2], dtype=np.float32),
    )
    AdvantageRecord(tmp_path).write(0, [trained, sample(1, 1, [0] * 5)])
    line = json.loads((tmp_path / FILE).read_text())
    assert sorted(line["advantages"]) == ["1.0", "1.1"]
    assert {name: floats(text) for name, text in line["log_ratios"].items()} == {"1.0": [0.25, 0, -0.5]}
    assert {name: floats(text) for name, text in line["entropies"].items()} == {"1.0": [0.5, 1, 2]}


def test_a_sample_that_the_update_left_out_has_no_ratio(tmp_path):
    annotated = replace(sample(1, 0, [0] * 5), old_logprobs_T=np.zeros(5, dtype=np.float32))
    AdvantageRecord(tmp_path).write(0, [annotated])
    assert "log_ratios" not in json.loads((tmp_path / FILE).read_text())


def test_values_beyond_16_bits_become_their_bounds():
    assert floats(half_floats(np.array([np.inf, -1e6, 0.5], dtype=np.float32))) == [65504, -65504, 0.5]
