"""Rules about the updates: entropy, KL, clipping, gradients and the warm start's loss."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trainer.config.algorithm import PpoLoss

from .finding import Finding, Severity
from .record import trend_of

if TYPE_CHECKING:
    from .record import RunRecord


ENTROPY_FLOOR, ENTROPY_LOST = 0.02, 0.1
"""Nats a token, and share of the early entropy: below both, episodes of a group hardly differ any more."""
ENTROPY_GROWTH, ENTROPY_RISE = 1.5, 0.3
"""Factor and nats a token: an entropy that grows by both is that of a policy that forgets."""
KL_WARNING, KL_PROBLEM = 0.02, 0.1
"""Nats a token between the policies before and after a step: PPO's usual bound for stopping early is 0.01 to
0.02; at 0.1 a step changes most turns.
"""
CLIPPED = 0.2
"""Above this share of clipped tokens, most of the later minibatches of a step learn nothing. Even a range of
1e-5 clips only 0.25, since half of the tokens move against their advantage and flat groups have none."""
GRADIENT_GROWTH = 10.0
"""Factor by which the gradient's norm may grow."""
SFT_LEAST_FALL = 0.1
"""Least relative fall of the warm start's loss."""
_LOWER_RATE = "lower learner.optimizer.learning_rate, threefold to tenfold at a time"


def entropy_collapsed(record: RunRecord) -> Finding | None:
    """Report that the policy hardly varies its turns any more."""
    entropy = record.trend("policy/entropy")
    if entropy is None or entropy.late >= ENTROPY_FLOOR or entropy.late >= ENTROPY_LOST * entropy.early:
        return None
    success = record.trend("success/mean")
    if success is not None and success.late >= 0.95:
        return None  # a policy that solves everything may be certain
    return Finding(
        Severity.PROBLEM,
        f"the entropy collapsed: {entropy.late:.3f} nats a token at last, {entropy.early:.3f} at first",
        (
            _LOWER_RATE,
            "raise algorithm.loss.clip_high, which lets unlikely tokens gain (DAPO)",
            "add a small algorithm.entropy, such as 0.001, and check that it is not negative",
        ),
        {"early": entropy.early, "late": entropy.late},
    )


def entropy_exploded(record: RunRecord) -> Finding | None:
    """Report that the policy becomes more and more random."""
    entropy = record.trend("policy/entropy")
    if entropy is None or entropy.change < ENTROPY_RISE or entropy.late < ENTROPY_GROWTH * entropy.early:
        return None
    return Finding(
        Severity.PROBLEM,
        f"the entropy exploded: {entropy.late:.2f} nats a token at last, {entropy.early:.2f} at first",
        (
            "lower algorithm.entropy if it is set",
            _LOWER_RATE,
            "keep the policy near the reference: algorithm.kl.place=loss",
        ),
        {"early": entropy.early, "late": entropy.late},
    )


def kl_high(record: RunRecord) -> Finding | None:
    """Report that single steps change the policy too much."""
    values = [value for value in record.values("policy/kl") if math.isfinite(value)]
    mean = record.recent("policy/kl")
    if mean is None:
        return None
    worst = max(values)
    if mean <= KL_WARNING and worst <= KL_PROBLEM:
        return None
    return Finding(
        Severity.PROBLEM if mean > KL_PROBLEM else Severity.WARNING,
        f"a step changes the policy too much: KL of {mean:.3g} nats a token at last, {worst:.3g} at most",
        (_LOWER_RATE, "use fewer learner.minibatches", "lower learner.optimizer.clip_norm"),
        {"late": mean, "worst": worst},
    )


def clip_share_high(record: RunRecord) -> Finding | None:
    """Report that many tokens are clipped.

    Of ppo alone: cispo's clipped tokens have a gradient, and gspo's ranges are meant to clip many.
    """
    mean = record.recent("policy/clip_share") or 0.0
    config = record.run.config
    if mean <= CLIPPED or (config is not None and not isinstance(config.algorithm.loss, PpoLoss)):
        return None
    return Finding(
        Severity.PROBLEM,
        f"{100 * mean:.0f}% of the tokens are clipped and teach nothing",
        (
            "check algorithm.loss.clip_low and clip_high: 0.2 and 0.28 are usual for ppo",
            _LOWER_RATE,
            "use fewer learner.minibatches",
        ),
        {"clip_share": mean},
    )


def gradient_unstable(record: RunRecord) -> Finding | None:
    """Report skipped updates and gradients that grow."""
    skipped = sum(value for value in record.values("policy/skipped") if math.isfinite(value))
    norms = record.values("policy/grad_norm")
    norm = trend_of(norms)
    if skipped:
        sentence = f"{skipped:.0f} updates were skipped because their gradient was not finite"
    elif any(not math.isfinite(value) for value in norms):
        sentence = "the norm of the gradient is not finite in some steps"
    elif norm is not None and norm.late > GRADIENT_GROWTH * norm.early:
        sentence = f"the gradient grows: its norm is {norm.late:.3g} at last, {norm.early:.3g} at first"
    else:
        return None
    return Finding(
        Severity.PROBLEM if norm is None or skipped else Severity.WARNING,
        sentence,
        (_LOWER_RATE, "lower learner.optimizer.clip_norm", "compute in float32: learner.dtype=float32"),
        {"skipped": skipped, **({"early": norm.early, "late": norm.late} if norm is not None else {})},
    )


def warm_start_stalled(record: RunRecord) -> Finding | None:
    """Report that the warm start's loss does not fall."""
    values = [metrics["loss/sft"] for metrics in record.run.warm.values() if "loss/sft" in metrics]
    loss = trend_of(values)
    if loss is None or loss.late < (1 - SFT_LEAST_FALL) * loss.early:
        return None
    return Finding(
        Severity.WARNING,
        f"the loss of the warm start does not fall: {loss.early:.3f} at first, {loss.late:.3f} at last",
        (
            "raise warm_start.optimizer.learning_rate",
            "check the demonstrations: sandbox-trainer report shows how they end",
        ),
        {"early": loss.early, "late": loss.late},
    )
