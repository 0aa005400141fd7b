"""Assign credit by a loss over whole completions: each token gets the negative derivative of the loss.

A loss L of the log-probabilities l_1..l_N of the completions of a batch has the gradient
sum_i (dL / dl_i) grad l_i, and l_i is a sum over tokens. With -dL / dl_i as advantage of every token of
completion i, one update by the advantage-weighted likelihood has exactly the gradient of L, however rows are
split over micro-batches and ranks. It holds for the first update of a batch only, so there is only one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from trainer.config.preferences import DpoLoss, IpoLoss, KtoLoss, OrpoLoss

from .dpo import dpo_losses
from .ipo import ipo_losses
from .kto import kl_baseline, kto_losses
from .orpo import orpo_losses
from .types import CompletionPairs, Completions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from trainer.config.preferences import PreferenceLossConfig
    from trainer.types import Batch, FloatT, Sample


PAIR_LOSSES: Mapping[type, Callable[..., Tensor]] = {
    DpoLoss: dpo_losses,
    IpoLoss: ipo_losses,
    OrpoLoss: orpo_losses,
}
"""Losses of pairs by their settings."""


def preference_credit(batch: Batch, config: PreferenceLossConfig) -> Batch:
    """Return the batch with advantages, and with the metrics of its completions.

    Adds ``loss/preferences``, ``preferences/accuracy`` (share of pairs whose chosen completion has the
    greater implicit reward; of labelled completions, share on the right side of the KL estimate),
    ``preferences/margin`` (difference of the mean implicit rewards), ``preferences/chosen`` and
    ``preferences/rejected`` (mean log-probability of a completion); for pairs the mean implicit rewards
    themselves, and for ``kto`` the KL estimate ``reference/kl_sequence``.

    Args:
        batch: with the policy's log-probabilities, and the reference's unless the loss is ``orpo``. Samples
            of a pair share their group; samples that are neither preferred nor rejected are in no loss, and
            estimate the KL.
        config: the loss.

    Raises ValueError when log-probabilities or the other half of a pair are missing.
    """
    given = _completions(batch, needs_reference=config.kind != "orpo")
    if isinstance(config, KtoLoss):
        losses_L, metrics = _labelled(batch, given, config)
    else:
        losses_L, metrics = _paired(batch, given, config)
    (slopes_N,) = torch.autograd.grad(losses_L.mean(), given.logprobs_N)
    samples = tuple(
        replace(sample, advantages_T=_spread(-slope, sample))
        for sample, slope in zip(batch.samples, slopes_N.tolist(), strict=True)
    )
    metrics = {"loss/preferences": float(losses_L.mean().detach()), **metrics}
    return replace(batch, samples=samples, metrics={**batch.metrics, **metrics})


def _paired(
    batch: Batch, given: Completions, config: PreferenceLossConfig
) -> tuple[Tensor, dict[str, float]]:
    chosen_P, rejected_P = _pair_places(batch)
    pairs = CompletionPairs(given.at(chosen_P), given.at(rejected_P))
    rewards = _rewards(pairs.chosen, config).detach(), _rewards(pairs.rejected, config).detach()
    margins_P = rewards[0] - rewards[1]
    metrics = {
        "preferences/accuracy": float((margins_P > 0).double().mean()),
        "preferences/margin": float(margins_P.mean()),
        "preferences/reward_chosen": float(rewards[0].mean()),
        "preferences/reward_rejected": float(rewards[1].mean()),
        **_levels(pairs.chosen, pairs.rejected),
    }
    return PAIR_LOSSES[type(config)](pairs, config), metrics


def _labelled(batch: Batch, given: Completions, config: KtoLoss) -> tuple[Tensor, dict[str, float]]:
    labels = [sample.preferred for sample in batch.samples]
    counted_N = torch.tensor([place for place, label in enumerate(labels) if label is not None])
    others_N = torch.tensor([place for place, label in enumerate(labels) if label is None], dtype=torch.long)
    if not len(counted_N):
        raise ValueError("the batch has no completion that is labelled desirable or undesirable")
    desirable_N = torch.tensor([bool(labels[place]) for place in counted_N.tolist()])
    mine = given.at(counted_N)
    kl = kl_baseline(given.at(others_N))
    losses_N = kto_losses(mine, desirable_N, kl, config)
    above_N = config.beta * (mine.ratios.detach() - kl)
    wanted, unwanted = above_N[desirable_N], above_N[~desirable_N]
    metrics = {
        "preferences/accuracy": float(((above_N > 0) == desirable_N).double().mean()),
        "reference/kl_sequence": float(kl),
        "preferences/desirable": float(desirable_N.double().mean()),
    }
    if len(wanted) and len(unwanted):
        metrics["preferences/margin"] = float(wanted.mean() - unwanted.mean())
    places = torch.arange(len(counted_N))
    return losses_N, metrics | _levels(mine.at(places[desirable_N]), mine.at(places[~desirable_N]))


def _levels(chosen: Completions, rejected: Completions) -> dict[str, float]:
    """Return mean log-probabilities of whole completions; only of kinds that the batch has."""
    given = {"preferences/chosen": chosen.logprobs_N, "preferences/rejected": rejected.logprobs_N}
    return {name: float(values.detach().mean()) for name, values in given.items() if len(values)}


def _rewards(completions: Completions, config: PreferenceLossConfig) -> Tensor:
    """Return the implicit rewards: scaled log-ratios, or mean log-probabilities of a token without a
    reference.
    """
    if isinstance(config, OrpoLoss):
        return config.odds_weight * completions.means
    ratios_N = completions.ratios
    return config.beta * (ratios_N / completions.tokens_N if isinstance(config, IpoLoss) else ratios_N)


def _completions(batch: Batch, *, needs_reference: bool) -> Completions:
    """Return the completions of all samples. The policy's log-probabilities are a leaf with gradient."""
    samples = batch.samples
    logprobs_N = torch.tensor([_summed(each, each.old_logprobs_T) for each in samples], dtype=torch.float64)
    reference = [_summed(each, each.ref_logprobs_T) if needs_reference else 0.0 for each in samples]
    tokens = [max(int(each.mask_T.sum()), 1) for each in samples]
    return Completions(
        logprobs_N.requires_grad_(),
        torch.tensor(reference, dtype=torch.float64),
        torch.tensor(tokens, dtype=torch.float64),
    )


def _summed(sample: Sample, logprobs_T: FloatT | None) -> float:
    if logprobs_T is None:
        raise ValueError(f"sample {sample.id} has no log-probabilities; annotate the batch first")
    return float(logprobs_T[sample.mask_T].sum(dtype=np.float64))


def _pair_places(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the indices of chosen and of rejected samples, pair by pair."""
    chosen: dict[int, list[int]] = {}
    rejected: dict[int, list[int]] = {}
    for place, sample in enumerate(batch.samples):
        if sample.preferred is not None:
            (chosen if sample.preferred else rejected).setdefault(sample.group, []).append(place)
    groups = sorted(chosen.keys() | rejected.keys())
    for group in groups:
        if len(chosen.get(group, ())) != len(rejected.get(group, ())):
            raise ValueError(f"pair {group} lacks its chosen or its rejected completion")
    if not groups:
        raise ValueError("the batch has no pair of completions")
    return (
        torch.tensor([place for group in groups for place in chosen[group]]),
        torch.tensor([place for group in groups for place in rejected[group]]),
    )


def _spread(value: float, sample: Sample) -> FloatT:
    return sample.mask_T.astype(np.float32) * np.float32(value)
