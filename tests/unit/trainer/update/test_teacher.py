"""A frozen model beside the one in training scores its tokens, and the policy comes to resemble it."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.harness.learning import run_config, small_batch, small_model
from trainer.advantage import credit
from trainer.update.learner import Learner
from trainer.update.objective import mismatch_metrics
from trainer.update.outline import filled, outlined, row_tokens
from trainer.update.partition import minibatches

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


def logprobs_of(folder, sample, temperature=1.0):
    """Of all words, at each token but the first."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.from_numpy(sample.token_ids_T).long()[None]
    with torch.no_grad():
        return (model(input_ids=ids).logits / temperature).log_softmax(-1)[0, :-1]


def by_transformers(folder, sample, temperature=1.0):
    ids = torch.from_numpy(sample.token_ids_T).long()
    found = logprobs_of(folder, sample, temperature).gather(-1, ids[1:, None])[:, 0].numpy()
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
        kls.append(done.metrics["distillation/kl"])
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


EXACT = {"distillation": {**DISTILLATION["distillation"], "estimate": "exact"}}


@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_an_exact_kl_is_that_of_transformers_distributions(folder, layout, temperature):
    teacher = {"kind": "model", "path": "teacher", "temperature": temperature}
    algorithm = {"distillation": {"teacher": teacher, "estimate": "exact"}}
    learner, algorithm = learner_on(folder, learner={"layout": layout}, algorithm=algorithm)
    batch = credit(learner.annotate(small_batch()), algorithm)
    assert all(sample.teacher_logprobs_T is None for sample in batch.samples)
    expected = []
    for sample in batch.samples:
        policy, other = (
            logprobs_of(folder.parent / name, sample, scale)
            for name, scale in (("model", 1.0), ("teacher", temperature))
        )
        expected += (policy.exp() * (policy - other)).sum(-1)[sample.mask_T[1:]].tolist()
    assert learner.update(batch)["distillation/kl"] == pytest.approx(np.mean(expected), rel=1e-4)


def test_an_exact_kl_falls_with_every_update_and_rewards_count_by_their_weight(folder):
    learner, algorithm = learner_on(folder, algorithm=EXACT)
    kls = []
    for _ in range(8):
        done = credit(learner.annotate(small_batch(rows=12)), algorithm)
        assert not any(sample.advantages_T.any() for sample in done.samples)
        kls.append(learner.update(done)["distillation/kl"])
    assert kls == sorted(kls, reverse=True)
    assert kls[-1] < 0.5 * kls[0]
    weighted = {"distillation": {**EXACT["distillation"], "task_weight": 0.5}, "advantage": {"kind": "rloo"}}
    half = credit(small_batch(), run_config(algorithm=weighted).algorithm)
    whole = credit(small_batch(), run_config(algorithm={"advantage": {"kind": "rloo"}}).algorithm)
    for one, other in zip(half.samples, whole.samples, strict=True):
        np.testing.assert_allclose(one.advantages_T, 0.5 * other.advantages_T)


@pytest.mark.parametrize("several", [{"minibatches": 3}, {"epochs": 2}], ids=["minibatches", "epochs"])
def test_several_updates_by_an_exact_kl_alone_need_no_pass_of_the_policy_before_them(folder, several):
    steady = {"learner": {"optimizer": {"learning_rate": 5e-3}, **several}}
    learner, algorithm = learner_on(folder, algorithm=EXACT, **steady)
    penalty = {"kl": {"place": "loss", "coefficient": 0.0}}
    other, compared = learner_on(folder, algorithm={**EXACT, **penalty}, **steady)
    batch = small_batch(rows=12)
    assert learner.to_annotate(batch) == frozenset()
    bare, scored = learner.annotate(batch), other.annotate(batch)
    assert all(sample.old_logprobs_T is None for sample in bare.samples)
    found, expected = (
        one.update(credit(given, settings))
        for one, given, settings in ((learner, bare, algorithm), (other, scored, compared))
    )
    for name in ("distillation/kl", "loss/distillation", "loss/policy", "policy/grad_norm"):
        assert found[name] == pytest.approx(expected[name], rel=1e-5), name
    for one, another in zip(learner.model.core.parameters(), other.model.core.parameters(), strict=True):
        torch.testing.assert_close(one, another)
    assert expected["policy/kl"] > 0
    assert found.keys().isdisjoint({"policy/kl", "policy/clip_share"})
    first = minibatches(12, several.get("minibatches", 1), (learner.settings.seed, 0, 0))[0]
    before_any = mismatch_metrics([scored.samples[row] for row in first], algorithm.mismatch)
    for name, value in before_any.items():
        assert found[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize(
    "changed",
    [
        {"distillation": {**EXACT["distillation"], "task_weight": 0.5}},
        {"kl": {"place": "loss"}},
        {"advantage": {"kind": "gae"}},
        {"loss": {"kind": "tests.harness.learning:small_model"}},
        DISTILLATION,
    ],
    ids=["task", "reference", "critic", "plugin", "sampled"],
)
def test_whatever_compares_policies_has_log_probabilities_from_before_the_updates(changed):
    assert run_config(algorithm={**EXACT, **changed}).algorithm.compares_policies
    assert not run_config(algorithm=EXACT).algorithm.compares_policies


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"teacher": {"kind": "server", "base_url": "http://a/v1", "model": "m"}}, "teacher.kind=model"),
        ({"discount": 0.5}, "set discount=0"),
    ],
)
def test_an_exact_kl_that_cannot_be_computed_is_refused(changed, why):
    with pytest.raises(ValueError, match=why):
        run_config(algorithm={"distillation": {**EXACT["distillation"], **changed}})


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
