"""Losses on preferences: hand-computed cases, and the behaviour that tells them apart."""

import math

import pytest
import torch

from trainer.config.preferences import DpoLoss, IpoLoss, KtoLoss, OrpoLoss
from trainer.update.preferences import (
    CompletionPairs,
    Completions,
    dpo_losses,
    ipo_losses,
    kto_losses,
    orpo_losses,
)
from trainer.update.preferences.kto import kl_baseline


def completions(logprobs, reference=None, tokens=None):
    return Completions(
        torch.tensor(logprobs, dtype=torch.float64, requires_grad=True),
        torch.tensor(reference or [0.0] * len(logprobs), dtype=torch.float64),
        torch.tensor(tokens or [1.0] * len(logprobs), dtype=torch.float64),
    )


def pairs(chosen, rejected):
    return CompletionPairs(completions(*chosen), completions(*rejected))


def test_dpo_is_log_two_where_policy_and_reference_agree():
    same = pairs(([-3.0], [-3.0]), ([-5.0], [-5.0]))
    assert dpo_losses(same, DpoLoss()).item() == pytest.approx(math.log(2))


def test_dpo_by_hand():
    # h = (-2 + 3) - (-6 + 5) = 2, beta h = 1, -log sigmoid(1) = log(1 + e^-1)
    given = pairs(([-2.0], [-3.0]), ([-6.0], [-5.0]))
    assert dpo_losses(given, DpoLoss(beta=0.5)).item() == pytest.approx(math.log1p(math.exp(-1)))


def test_label_smoothing_weighs_the_exchanged_pair():
    given = pairs(([-2.0], [-3.0]), ([-6.0], [-5.0]))
    right, wrong = math.log1p(math.exp(-1)), math.log1p(math.exp(1))
    found = dpo_losses(given, DpoLoss(beta=0.5, label_smoothing=0.2)).item()
    assert found == pytest.approx(0.8 * right + 0.2 * wrong)


@pytest.mark.parametrize(
    ("losses", "config"), [(dpo_losses, DpoLoss), (ipo_losses, IpoLoss)], ids=["dpo", "ipo"]
)
def test_the_likelihood_of_the_chosen_completion_a_token_is_added_with_its_weight(losses, config):
    given = pairs(([-2.0], [-3.0], [4.0]), ([-6.0], [-5.0], [8.0]))
    added = losses(given, config(sft_weight=3.0)) - losses(given, config())
    assert added.item() == pytest.approx(3.0 * 2.0 / 4.0)
    added.sum().backward()
    assert given.chosen.logprobs_N.grad.tolist() == pytest.approx([-0.75])
    assert given.rejected.logprobs_N.grad.tolist() == pytest.approx([0.0])


def test_ipo_by_hand_with_means_over_tokens():
    # (-2 + 3) / 2 - (-6 + 5) / 4 = 0.75; the target is 1 / (2 * 0.5) = 1
    given = pairs(([-2.0], [-3.0], [2.0]), ([-6.0], [-5.0], [4.0]))
    assert ipo_losses(given, IpoLoss(beta=0.5)).item() == pytest.approx(0.0625)


def test_ipo_has_its_minimum_at_a_finite_margin_and_dpo_has_none():
    wide = pairs(([-1.0], [-21.0]), ([-21.0], [-1.0]))
    ipo_losses(wide, IpoLoss(beta=0.1)).sum().backward()
    assert wide.chosen.logprobs_N.grad.item() > 0, "a margin beyond the target is narrowed"
    wide.chosen.logprobs_N.grad = None
    dpo_losses(wide, DpoLoss(beta=0.1)).sum().backward()
    assert wide.chosen.logprobs_N.grad.item() < 0


def test_kto_by_hand():
    # beta (r - z) = 0.5 * (2 - 1) = 0.5 and 0.5 * (-3 - 1) = -2
    given = completions([-2.0, -7.0], [-4.0, -4.0])
    labels = torch.tensor([True, False])
    config = KtoLoss(beta=0.5, desirable_weight=1.5, undesirable_weight=0.5)
    found = kto_losses(given, labels, torch.tensor(1.0, dtype=torch.float64), config)
    wanted = 1.5 * (1 - 1 / (1 + math.exp(-0.5)))
    unwanted = 0.5 * (1 - 1 / (1 + math.exp(-2)))
    assert found.tolist() == pytest.approx([wanted, unwanted])


def test_the_kl_estimate_is_a_mean_that_is_never_negative_and_has_no_gradient():
    above, below = completions([-1.0, -2.0], [-2.0, -4.0]), completions([-3.0], [-1.0])
    assert kl_baseline(above).item() == pytest.approx(1.5)
    assert kl_baseline(below).item() == 0.0
    assert not kl_baseline(above).requires_grad
    assert kl_baseline(completions([])).item() == 0.0


def test_orpo_by_hand():
    # p = 0.5 and 0.25 a token: odds 1 and 1/3, so the log-odds ratio is log 3
    given = pairs(([2 * math.log(0.5)], None, [2.0]), ([3 * math.log(0.25)], None, [3.0]))
    found = orpo_losses(given, OrpoLoss(odds_weight=0.1)).item()
    assert found == pytest.approx(math.log(2) + 0.1 * math.log1p(1 / 3))


def test_orpo_is_finite_where_every_token_is_certain():
    given = pairs(([0.0], None, [4.0]), ([-9.0], None, [4.0]))
    losses = orpo_losses(given, OrpoLoss())
    losses.sum().backward()
    assert torch.isfinite(losses).all()
    assert torch.isfinite(given.chosen.logprobs_N.grad).all()


@pytest.mark.parametrize(
    ("losses", "config"),
    [
        (dpo_losses, DpoLoss(label_smoothing=0.1)),
        (ipo_losses, IpoLoss()),
        (orpo_losses, OrpoLoss()),
    ],
    ids=["dpo", "ipo", "orpo"],
)
def test_derivatives_of_losses_on_pairs_are_those_of_finite_differences(losses, config):
    def loss(chosen, rejected):
        fixed = torch.tensor([-4.0, -9.0], dtype=torch.float64), torch.tensor([3.0, 5.0], dtype=torch.float64)
        return losses(CompletionPairs(Completions(chosen, *fixed), Completions(rejected, *fixed)), config)

    given = [
        torch.tensor(row, dtype=torch.float64, requires_grad=True) for row in ([-3.0, -8.0], [-7.0, -6.5])
    ]
    assert torch.autograd.gradcheck(loss, given)


def test_derivatives_of_kto_are_those_of_finite_differences():
    labels, kl = torch.tensor([True, False]), torch.tensor(0.3, dtype=torch.float64)
    fixed = torch.tensor([-4.0, -9.0], dtype=torch.float64), torch.tensor([3.0, 5.0], dtype=torch.float64)

    def loss(logprobs):
        return kto_losses(Completions(logprobs, *fixed), labels, kl, KtoLoss())

    assert torch.autograd.gradcheck(
        loss, [torch.tensor([-3.0, -8.0], dtype=torch.float64, requires_grad=True)]
    )
