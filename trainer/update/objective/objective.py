"""Assemble the loss of a micro-batch from its parts, with metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .kl import kl_estimate
from .mismatch import correction
from .policy_losses import POLICY_LOSSES
from .types import LossInputs, ObjectiveOutput
from .value_loss import value_loss

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.config.algorithm import AlgorithmConfig, ValueConfig


def objective(
    inputs: LossInputs, config: AlgorithmConfig, weights_BT: Tensor, kl_coefficient: float = 0.0
) -> ObjectiveOutput:
    """Compute policy loss, KLs, entropy bonus and critic loss, each summed over tokens with the same weights.

    Args:
        inputs: the micro-batch, of any floating dtype.
        config: the algorithm.
        weights_BT: token weights from ``row_token_weights``; tokens of weight 0 are in no metric.
        kl_coefficient: coefficient of the KL to the reference, used when ``config.kl.place`` is ``loss``.

    Raises ValueError when the configuration needs a part of the inputs that is missing.
    """
    inputs = inputs.cleaned()
    counted_BT = inputs.mask_BT & (weights_BT > 0)
    policy = POLICY_LOSSES[type(config.loss)](inputs, config.loss)
    importance = correction(
        inputs.old_logprobs_BT,
        inputs.sampling_logprobs_BT,
        inputs.mask_BT,
        config.mismatch,
        inputs.sequences_BT,
    )
    losses = {"loss/policy": _weighed(policy.losses_BT * importance.weights_BT, weights_BT)}
    moved_BT = kl_estimate(inputs.old_logprobs_BT, inputs.logprobs_BT.detach(), "k3")
    sums = {
        "policy/kl": _counted(moved_BT, counted_BT),
        "policy/clip_share": _counted(policy.clipped_BT.float(), counted_BT),
        "tokens": counted_BT.float().sum(),
    }
    loss = losses["loss/policy"]
    if inputs.ref_logprobs_BT is not None:
        kl_BT = kl_estimate(inputs.logprobs_BT, inputs.ref_logprobs_BT, config.kl.estimator)
        sums["reference/kl"] = _counted(kl_BT, counted_BT)
        if config.kl.place == "loss":
            losses["loss/kl"] = _weighed(kl_BT, weights_BT)
            loss = loss + kl_coefficient * losses["loss/kl"]
    elif config.kl.place == "loss":
        raise ValueError(
            "algorithm.kl.place=loss needs the reference model's log-probabilities, which the batch lacks"
        )
    if inputs.entropy_BT is not None:
        sums["policy/entropy"] = _counted(inputs.entropy_BT, counted_BT)
        if config.entropy:
            loss = loss - config.entropy * _weighed(inputs.entropy_BT, weights_BT)
    elif config.entropy:
        raise ValueError("algorithm.entropy_bonus needs the entropy, which the pass did not compute")
    if inputs.values_BT is not None:
        losses["loss/value"], sums["value/clip_share"] = _critic(inputs, config.value, weights_BT, counted_BT)
        loss = loss + config.value.coefficient * losses["loss/value"]
    if inputs.teacher_kl_BT is not None and config.distillation is not None:
        losses["loss/distillation"] = _weighed(inputs.teacher_kl_BT, weights_BT)
        sums["distillation/kl"] = _counted(inputs.teacher_kl_BT, counted_BT)
        loss = loss + config.distillation.weight * losses["loss/distillation"]
    return ObjectiveOutput(loss, {name: part.detach() for name, part in losses.items()}, sums)


def likelihood_loss(inputs: LossInputs, weights_BT: Tensor, name: str | None = "loss/sft") -> ObjectiveOutput:
    """Return the negative log-likelihood of the tokens, weighted by their advantages.

    These are 1 in plain SFT. For a loss over whole sequences they are its negative derivatives by the
    sequences' log-probabilities, so that gradients are exact; the value means nothing then, and is not
    reported (``name`` is None).
    """
    inputs = inputs.cleaned()
    counted_BT = inputs.mask_BT & (weights_BT > 0)
    loss = _weighed(-inputs.logprobs_BT * inputs.advantages_BT, weights_BT)
    sums = {"tokens": counted_BT.float().sum()}
    if inputs.entropy_BT is not None:
        sums["policy/entropy"] = _counted(inputs.entropy_BT, counted_BT)
    return ObjectiveOutput(loss, {} if name is None else {name: loss.detach()}, sums)


def reported(losses: Mapping[str, float], sums: Mapping[str, float], updates: int) -> dict[str, float]:
    """Return metrics from sums over micro-batches, ranks and updates.

    Losses are means over updates, the others means over tokens; ``tokens/trained`` counts a token once per
    update.
    """
    tokens = max(sums["tokens"], 1.0)
    means = {name: value / tokens for name, value in sums.items() if name != "tokens"}
    return {
        **{name: value / max(updates, 1) for name, value in losses.items()},
        **means,
        "tokens/trained": sums["tokens"],
    }


def _critic(
    inputs: LossInputs, config: ValueConfig, weights_BT: Tensor, counted_BT: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the critic's loss and the number of tokens whose loss is clipped."""
    if inputs.values_BT is None or inputs.old_values_BT is None or inputs.returns_BT is None:
        raise ValueError("the critic's loss needs values, old values and returns, which the batch lacks")
    errors_BT, clipped_BT = value_loss(inputs.values_BT, inputs.old_values_BT, inputs.returns_BT, config.clip)
    return _weighed(errors_BT, weights_BT), _counted(clipped_BT.float(), counted_BT)


def _weighed(values_BT: Tensor, weights_BT: Tensor) -> Tensor:
    return (values_BT * weights_BT).sum()


def _counted(values_BT: Tensor, counted_BT: Tensor) -> Tensor:
    return values_BT.detach().masked_fill(~counted_BT, 0.0).sum()
