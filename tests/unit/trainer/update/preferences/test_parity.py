"""The same losses as TRL's on the same log-probabilities."""

import pytest
import torch

from tests.harness.trl_formulas import trl_dpo_loss, trl_kto_loss, trl_orpo_loss
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

PAIRS, LONGEST = 5, 9


def tokens(seed, rows, lengths):
    """Log-probabilities of completions of these lengths, 0 behind their ends."""
    generator = torch.Generator().manual_seed(seed)
    drawn = -torch.rand(rows, LONGEST, generator=generator, dtype=torch.float64) * 3
    return drawn * mask(lengths)


def mask(lengths):
    return (torch.arange(LONGEST) < torch.tensor(lengths)[:, None]).double()


LENGTHS = [3, 9, 5, 1, 7, 4, 2, 8, 6, 9]
POLICY, REFERENCE = tokens(0, 2 * PAIRS, LENGTHS), tokens(1, 2 * PAIRS, LENGTHS)


def completions(policy, reference, lengths):
    return Completions(policy.sum(1), reference.sum(1), torch.tensor(lengths, dtype=torch.float64))


def pairs():
    return CompletionPairs(
        completions(POLICY[:PAIRS], REFERENCE[:PAIRS], LENGTHS[:PAIRS]),
        completions(POLICY[PAIRS:], REFERENCE[PAIRS:], LENGTHS[PAIRS:]),
    )


@pytest.mark.parametrize("beta", [0.05, 0.1, 1.0])
def test_dpo_is_that_of_trl(beta):
    theirs = trl_dpo_loss(POLICY, REFERENCE, mask(LENGTHS), loss_type="sigmoid", beta=beta)
    assert dpo_losses(pairs(), DpoLoss(beta=beta)).mean().item() == pytest.approx(theirs.item(), rel=1e-12)


def test_smoothed_dpo_is_that_of_trl_pair_by_pair():
    # TRL 1.16 smooths labels in `aot` only, which for one pair sorts nothing and is conservative DPO.
    ours = dpo_losses(pairs(), DpoLoss(beta=0.2, label_smoothing=0.15))
    for pair in range(PAIRS):
        rows = [pair, PAIRS + pair]
        theirs = trl_dpo_loss(
            POLICY[rows],
            REFERENCE[rows],
            mask(LENGTHS)[rows],
            loss_type="aot",
            beta=0.2,
            label_smoothing=0.15,
        )
        assert ours[pair].item() == pytest.approx(theirs.item(), rel=1e-12)


@pytest.mark.parametrize("beta", [0.1, 0.7])
def test_ipo_is_that_of_trl(beta):
    theirs = trl_dpo_loss(POLICY, REFERENCE, mask(LENGTHS), loss_type="ipo", beta=beta)
    assert ipo_losses(pairs(), IpoLoss(beta=beta)).mean().item() == pytest.approx(theirs.item(), rel=1e-12)


def test_kto_is_that_of_trl():
    labels = torch.tensor([True, False, False, True, True, False, True, False, False, True])
    config = KtoLoss(beta=0.3, desirable_weight=1.3, undesirable_weight=0.8)
    mismatched = tokens(2, 2 * PAIRS, LENGTHS), tokens(3, 2 * PAIRS, LENGTHS)
    kl = kl_baseline(completions(*mismatched, LENGTHS))
    ours = kto_losses(completions(POLICY, REFERENCE, LENGTHS), labels, kl, config).mean()
    theirs, their_kl = trl_kto_loss(
        POLICY,
        REFERENCE,
        *mismatched,
        labels,
        beta=0.3,
        desirable_weight=1.3,
        undesirable_weight=0.8,
    )
    assert kl.item() == pytest.approx(their_kl.item(), rel=1e-12)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-12)


def test_the_odds_ratio_of_orpo_is_that_of_trl():
    given = pairs()
    ours = orpo_losses(given, OrpoLoss(odds_weight=0.25)) + given.chosen.means
    theirs = trl_orpo_loss(given.chosen.means, given.rejected.means, beta=0.25)
    # TRL computes it in float32.
    assert (-ours).tolist() == pytest.approx(theirs.tolist(), rel=1e-5)
