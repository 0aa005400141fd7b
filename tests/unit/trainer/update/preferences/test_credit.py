"""Credit by a loss over completions, and the exactness of the update that follows from it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.harness.learning import run_config, small_batch, small_model
from tests.harness.samples import batch, sample
from trainer.config.preferences import DpoLoss, IpoLoss, KtoLoss, OrpoLoss
from trainer.types import Objective
from trainer.update.learner import Learner
from trainer.update.preferences import (
    CompletionPairs,
    Completions,
    dpo_losses,
    ipo_losses,
    kto_losses,
    orpo_losses,
)
from trainer.update.preferences import preference_credit as credit
from trainer.update.preferences.kto import kl_baseline

LOSSES = [DpoLoss(label_smoothing=0.1), IpoLoss(beta=0.5), KtoLoss(beta=0.4), OrpoLoss(odds_weight=0.5)]


def completion(group, logprob, reference, *, preferred, weight=1.0):
    """Two tokens of a completion behind one of its prompt."""
    made = sample(
        f"{group}.{preferred}",
        [-1, 0, 0],
        [0, 0, 0],
        group=group,
        weight=weight,
        old=[0, logprob / 2, logprob / 2],
        ref=[0, reference / 2, reference / 2],
    )
    return replace(made, preferred=preferred)


def test_each_token_gets_the_negative_derivative_of_the_loss():
    rows = completion(0, -2.0, -3.0, preferred=True), completion(0, -6.0, -5.0, preferred=False)
    chosen, rejected = credit(batch(*rows), DpoLoss(beta=0.5)).samples
    # d/dh of log(1 + e^-h/2) at h = 2 is -0.5 sigmoid(-1)
    slope = 0.5 / (1 + np.e)
    assert chosen.advantages_T.tolist() == pytest.approx([0, slope, slope])
    assert rejected.advantages_T.tolist() == pytest.approx([0, -slope, -slope])


def test_metrics_of_pairs():
    rows = [
        completion(0, -2.0, -3.0, preferred=True),
        completion(0, -6.0, -5.0, preferred=False),
        completion(1, -4.0, -4.0, preferred=True),
        completion(1, -4.0, -5.0, preferred=False),
    ]
    metrics = credit(batch(*rows), DpoLoss(beta=0.5)).metrics
    assert metrics["preferences/accuracy"] == 0.5
    assert metrics["preferences/margin"] == pytest.approx((1.0 - 0.5) / 2)
    assert metrics["preferences/chosen"] == -3.0
    assert metrics["preferences/rejected"] == -5.0


def test_metrics_of_labelled_completions():
    rows = [
        completion(0, -2.0, -4.0, preferred=True),
        completion(1, -6.0, -5.0, preferred=False),
        completion(2, -6.0, -5.0, preferred=True),
        completion(0, -1.0, -2.0, preferred=None, weight=0.0),
    ]
    metrics = credit(batch(*rows), KtoLoss(beta=0.5)).metrics
    assert metrics["reference/kl_sequence"] == 1.0
    assert metrics["preferences/accuracy"] == pytest.approx(2 / 3)
    assert metrics["preferences/desirable"] == pytest.approx(2 / 3)


def test_a_pair_that_a_batch_has_twice_counts_twice():
    rows = completion(0, -2.0, -3.0, preferred=True), completion(0, -6.0, -5.0, preferred=False)
    once, twice = (credit(batch(*rows * times), DpoLoss()) for times in (1, 2))
    assert twice.metrics == pytest.approx(once.metrics)
    halves = [each.advantages_T[1] for each in twice.samples]
    assert halves == pytest.approx([each.advantages_T[1] / 2 for each in once.samples] * 2)


def test_half_a_pair_is_an_error():
    with pytest.raises(ValueError, match="pair 0 lacks its chosen or its rejected completion"):
        credit(batch(completion(0, -2.0, -3.0, preferred=True)), DpoLoss())


def test_a_batch_that_was_not_annotated_is_an_error():
    row = replace(completion(0, -2.0, -3.0, preferred=True), old_logprobs_T=None)
    with pytest.raises(ValueError, match="annotate the batch first"):
        credit(batch(row), DpoLoss())


def preferences(step=0):
    """Three pairs of completions of several lengths, and what estimates the KL for labelled ones."""
    given = small_batch(step, rows=8, objective=Objective.PREFERENCES)
    labels = [True, False, True, False, True, False, None, None]
    samples = [
        replace(each, preferred=label, weight=1.0 if label is not None else 0.0, advantages_T=None)
        for each, label in zip(given.samples, labels, strict=True)
    ]
    return replace(given, samples=tuple(samples))


def direct_loss(model, reference, given, config):
    """The loss as its paper writes it, of whole sequences in one autograd graph."""

    def logprobs(of):
        rows = []
        for each in given.samples:
            ids = torch.tensor(each.token_ids_T.astype(np.int64))[None]
            found = of(input_ids=ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
            rows.append(found[torch.tensor(each.mask_T[1:])].sum())
        return torch.stack(rows)

    with torch.no_grad():
        fixed = logprobs(reference)
    lengths = torch.tensor([float(each.mask_T.sum()) for each in given.samples])
    all_rows = Completions(logprobs(model), fixed, lengths)
    if isinstance(config, KtoLoss):
        labels = torch.tensor([True, False, True, False, True, False])
        kl = kl_baseline(all_rows.at(torch.tensor([6, 7])))
        return kto_losses(all_rows.at(torch.arange(6)), labels, kl, config).mean()
    pairs = CompletionPairs(all_rows.at(torch.tensor([0, 2, 4])), all_rows.at(torch.tensor([1, 3, 5])))
    losses = {DpoLoss: dpo_losses, IpoLoss: ipo_losses, OrpoLoss: orpo_losses}[type(config)]
    return losses(pairs, config).mean()


@pytest.mark.parametrize("layout", ["padded", "packed"])
@pytest.mark.parametrize("config", LOSSES, ids=lambda each: each.kind)
def test_an_update_in_micro_batches_has_the_gradient_of_the_loss_itself(tmp_path, config, layout):
    folder = small_model(tmp_path)
    optimizer = {"learning_rate": 1e-2, "clip_norm": 0.0}
    settings = run_config(learner={"optimizer": optimizer, "layout": layout}).learner_settings
    learner = Learner(folder, settings, "cpu")
    learner.begin_stage(settings.learner.optimizer, 3, reference=config.kind != "orpo")
    learner.update(credit(learner.annotate(preferences(1)), config))  # policy and reference part
    model, reference = (AutoModelForCausalLM.from_pretrained(folder) for _ in range(2))
    model.load_state_dict(dict(learner.named_weights()), strict=False)
    given = preferences()
    loss = direct_loss(model, reference, given, config)
    loss.backward()
    credited = credit(learner.annotate(given), config)
    assert credited.metrics["loss/preferences"] == pytest.approx(loss.item(), rel=1e-4)
    learner.update(credited)
    theirs = {name: each.grad for name, each in model.named_parameters()}
    checked = 0
    for name, parameter in learner.optimizer.parameters.items():
        (match,) = [each for key, each in theirs.items() if name.endswith(key)]
        scale = match.abs().max().item()
        assert torch.allclose(parameter.grad, match, rtol=1e-3, atol=1e-4 * scale + 1e-9), name
        checked += 1
    assert checked == len(theirs)


@pytest.mark.parametrize("lora", [None, {"rank": 4}], ids=["full", "lora"])
def test_dpo_parts_chosen_from_rejected_while_the_reference_stays(tmp_path, lora):
    folder = small_model(tmp_path)
    settings = run_config(learner={"optimizer": {"learning_rate": 3e-3}, "lora": lora}).learner_settings
    learner = Learner(folder, settings, "cpu")
    learner.begin_stage(settings.learner.optimizer, 10, reference=True)
    first = learner.annotate(preferences())
    margins = []
    for _ in range(6):
        credited = credit(learner.annotate(preferences()), DpoLoss())
        margins.append(credited.metrics["preferences/margin"])
        learner.update(credited)
    assert margins[0] == pytest.approx(0.0, abs=1e-6)
    assert margins == sorted(margins)
    again = learner.annotate(preferences())
    for one, other in zip(first.samples, again.samples, strict=True):
        assert np.allclose(one.ref_logprobs_T, other.ref_logprobs_T, atol=1e-5)
