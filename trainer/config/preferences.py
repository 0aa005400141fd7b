"""Losses of a stage that learns from preferences."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from sandbox_settings import Branch, NonNegative

_Above = Annotated[float, Field(gt=0)]


class DpoLoss(Branch):
    """Direct preference optimization (Rafailov et al. 2023, https://arxiv.org/abs/2305.18290)."""

    kind: Literal["dpo"] = "dpo"
    beta: _Above = 0.1
    """Strength of the KL penalty to the reference model that the loss implies."""
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """Assumed share of pairs whose labels are exchanged (conservative DPO)."""
    sft_weight: NonNegative = 0.0
    """Weight of the chosen completion's negative log-likelihood a token (Pang et al. 2024)."""


class IpoLoss(Branch):
    """Identity preference optimization (Azar et al. 2023, https://arxiv.org/abs/2310.12036)."""

    kind: Literal["ipo"] = "ipo"
    beta: _Above = 0.1
    """The paper's tau: the margin aimed at is 1 / (2 beta), in nats a token."""
    sft_weight: NonNegative = 0.0
    """Weight of the chosen completion's negative log-likelihood a token (Pang et al. 2024)."""


class KtoLoss(Branch):
    """Kahneman-Tversky optimization (Ethayarajh et al. 2024, https://arxiv.org/abs/2402.01306)."""

    kind: Literal["kto"] = "kto"
    beta: _Above = 0.1
    """Strength of the KL penalty to the reference model that the loss implies."""
    desirable_weight: NonNegative = 1.0
    """Weight of desirable completions."""
    undesirable_weight: NonNegative = 1.0
    """Weight of undesirable completions."""


class OrpoLoss(Branch):
    """Odds-ratio preference optimization, without a reference model (Hong et al. 2024,
    https://arxiv.org/abs/2403.07691)."""

    kind: Literal["orpo"] = "orpo"
    odds_weight: NonNegative = 0.1
    """The paper's lambda: weight of the odds ratio beside the negative log-likelihood of the chosen one."""


PreferenceLossConfig: TypeAlias = Annotated[
    DpoLoss | IpoLoss | KtoLoss | OrpoLoss, Field(discriminator="kind")
]
