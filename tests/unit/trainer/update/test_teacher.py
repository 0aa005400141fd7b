"""A frozen model beside the one in training scores its tokens, and the policy comes to resemble it."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.harness.learning import run_config, small_batch, small_model
from trainer.advantage import credit
from trainer.update.learner import Learner
from trainer.update.outline import filled, outlined, row_tokens

DISTILLATION = {"distillation": {"teacher": {"kind": "model", "path": "teacher"}}, "loss": {"kind": "cispo"}}


@pytest.fixture
def folder(tmp_path):
    small_model(tmp_path / "teacher", family="llama", hidden=16, layers=1)
    return small_model(tmp_path / "model")


def learner_on(folder, **branches):
    branches.setdefault("algorithm", DISTILLATION)
    branches.setdefault("learner", {"optimizer": {"learning_rate": 5e-3}})
    config = run_config(**branches)
    learner = Learner(folder, config.learner_settings, "cpu", teacher=folder.parent / "teacher")
    learner.begin_stage(config.learner.optimizer, 20)
    return learner, config.algorithm


def by_transformers(folder, sample, temperature=1.0):
    model = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.from_numpy(sample.token_ids_T).long()[None]
    with torch.no_grad():
        logp = (model(input_ids=ids).logits / temperature).log_softmax(-1)
    found = logp[0, :-1].gather(-1, ids[0, 1:, None])[:, 0].numpy()
    return np.where(sample.mask_T, np.concatenate([[0.0], found]), 0.0)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_the_teacher_scores_the_sampled_tokens_as_transformers_does(folder, layout, temperature):
    teacher = {"kind": "model", "path": "teacher", "temperature": temperature}
    learner, _ = learner_on(
        folder, learner={"layout": layout}, algorithm={"distillation": {"teacher": teacher}}
    )
    for sample in learner.annotate(small_batch()).samples:
        expected = by_transformers(folder.parent / "teacher", sample, temperature)
        np.testing.assert_allclose(sample.teacher_logprobs_T, expected, atol=1e-5)


def test_an_update_takes_the_policy_towards_the_teacher_and_leaves_the_teacher_as_it_is(folder):
    learner, algorithm = learner_on(folder)
    batch = small_batch(rows=12)
    kls, scores = [], []
    for _ in range(12):
        scored = learner.annotate(batch)
        scores.append(scored.samples[0].teacher_logprobs_T.tolist())
        done = credit(scored, algorithm)
        kls.append(done.facts["distillation/kl"])
        learner.update(done)
    # These tokens were not sampled from the policy: their log-ratio moves by the sign of the advantage.
    liked = [credit(learner.annotate(batch), algorithm)]
    gaps = [
        np.abs(each.old_logprobs_T - each.teacher_logprobs_T)[each.mask_T].mean() for each in liked[0].samples
    ]
    first = credit(learner_on(folder)[0].annotate(batch), algorithm)
    before = [
        np.abs(each.old_logprobs_T - each.teacher_logprobs_T)[each.mask_T].mean() for each in first.samples
    ]
    assert np.mean(gaps) < 0.5 * np.mean(before)
    assert all(row == scores[0] for row in scores)


def test_adapters_and_critic_are_the_policys_alone(folder):
    learner, _ = learner_on(
        folder,
        learner={"lora": {"rank": 4}},
        algorithm={**DISTILLATION, "advantage": {"kind": "gae"}},
    )
    sample = learner.annotate(small_batch()).samples[0]
    expected = by_transformers(folder.parent / "teacher", sample)
    np.testing.assert_allclose(sample.teacher_logprobs_T, expected, atol=1e-5)


def test_log_probabilities_of_a_server_come_with_the_outline_to_every_rank(folder):
    from dataclasses import replace

    whole = small_batch(rows=3)
    given = replace(
        whole,
        samples=tuple(
            replace(each, teacher_logprobs_T=np.where(each.mask_T, -1.5, 0).astype(np.float32))
            for each in whole.samples
        ),
    )
    hollow = filled(outlined(given).batch(), row_tokens(given, [1]))
    for one, other in zip(hollow.samples, given.samples, strict=True):
        assert one.teacher_logprobs_T.tolist() == other.teacher_logprobs_T.tolist()
    assert outlined(whole).batch().samples[0].teacher_logprobs_T is None
