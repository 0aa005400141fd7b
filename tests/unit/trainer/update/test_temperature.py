from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.harness.learning import WORDS, load_model, run_config, small_batch, small_model
from trainer.types import Objective
from trainer.update.learner import Learner
from trainer.update.packing import Row, lay_out

TEMPERATURE = 0.6
PROMPT = [5, 9, 2]
CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path):
    return small_model(tmp_path / "model")


def expected_gradient(folder, temperature):
    """Of the policy gradient in a state where every word is worth the same, words sampled at TEMPERATURE."""
    core = load_model(folder, run_config().learner_settings)
    row = Row(np.array([*PROMPT, 0], dtype=np.int32), np.array([False, False, False, True]))
    rows = [Row(np.array([*PROMPT, word], dtype=np.int32), row.kept_T) for word in range(WORDS)]
    indices = tuple(range(WORDS))
    with torch.no_grad():
        chances = core(lay_out(rows, indices, "padded", CPU, TEMPERATURE)).logprobs_K.exp()
    assert float(chances.sum()) == pytest.approx(1, abs=1e-5)
    advantage = 0.7
    (
        advantage * chances * core(lay_out(rows, indices, "padded", CPU, temperature)).logprobs_K
    ).sum().backward()
    return max(float(each.grad.abs().max()) for each in core.parameters())


def test_actions_that_are_worth_the_same_move_nothing_on_average(folder):
    assert expected_gradient(folder, TEMPERATURE) < 1e-6
    assert expected_gradient(folder, 1.0) > 1e-3  # what a learner that ignores the temperature does


def learner_of(folder, temperature, epochs=2, **algorithm):
    settings = {"rollout": {"sampling": {"temperature": temperature}}, "algorithm": algorithm}
    config = run_config(learner={"epochs": epochs}, **settings)
    learner = Learner(folder, config.learner_settings, "cpu")
    learner.begin_stage(config.learner.optimizer, 10)
    return learner


def test_old_and_reference_log_probabilities_are_of_the_distribution_that_was_sampled_from(folder):
    batch = learner_of(folder, TEMPERATURE, kl={"place": "loss"}).annotate(small_batch())
    core = load_model(folder, run_config().learner_settings).eval()
    for sample in batch.samples:
        row = Row(sample.token_ids_T, sample.mask_T)
        with torch.no_grad():
            expected = core(lay_out([row], (0,), "padded", CPU, TEMPERATURE)).logprobs_K.numpy()
        for found in (sample.old_logprobs_T, sample.ref_logprobs_T):
            assert found[sample.mask_T] == pytest.approx(expected, abs=1e-5)


def test_an_engine_that_samples_with_the_same_weights_does_not_differ_from_the_learner(folder):
    batch = learner_of(folder, TEMPERATURE).annotate(small_batch())
    sampled = [replace(each, logprobs_T=each.old_logprobs_T, old_logprobs_T=None) for each in batch.samples]
    differences = []
    for temperature in (TEMPERATURE, 1.0):
        learner = learner_of(folder, temperature, epochs=1)
        differences.append(learner.update(replace(batch, samples=tuple(sampled)))["mismatch/kl"])
    assert differences[0] == pytest.approx(0, abs=1e-6)
    assert differences[1] > 1e-2


def test_demonstrations_and_probes_are_at_temperature_one(folder):
    batch = small_batch(objective=Objective.SFT)
    losses = [learner_of(folder, temperature).update(batch) for temperature in (TEMPERATURE, 1.0)]
    assert losses[0]["policy/grad_norm"] == losses[1]["policy/grad_norm"]
    probes = [learner_of(folder, temperature).probe([(1, 2, 3)]) for temperature in (TEMPERATURE, 1.0)]
    assert np.array_equal(probes[0][0], probes[1][0])
