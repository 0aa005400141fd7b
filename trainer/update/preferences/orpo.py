"""Odds-ratio preference optimization (ORPO): supervised fine-tuning with an odds ratio, without a reference.

    loss = - mean_t log pi(y_w) - lambda log sigmoid(log odds(y_w) - log odds(y_l))
    odds(y) = p / (1 - p),  log p = mean_t log pi(y)

(Hong et al. 2024, equations 4 to 7, https://arxiv.org/abs/2403.07691). The likelihood is that of the
completion alone, and each pair counts the same; TRL's includes the prompt's tokens and is a mean over the
tokens of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import logsigmoid

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.config.preferences import OrpoLoss

    from .types import CompletionPairs


_CERTAIN = -1e-7
"""Greatest mean log-probability of a token whose odds are finite in float64."""


def orpo_losses(pairs: CompletionPairs, config: OrpoLoss) -> Tensor:
    """Return the loss of each pair, shape (P,)."""
    return -pairs.chosen.means - config.odds_weight * logsigmoid(log_odds_ratio(pairs))


def log_odds_ratio(pairs: CompletionPairs) -> Tensor:
    """Return the log-odds of the chosen completions minus those of the rejected ones, shape (P,)."""
    return _log_odds(pairs.chosen.means) - _log_odds(pairs.rejected.means)


def _log_odds(logprobs_P: Tensor) -> Tensor:
    bounded_P = logprobs_P.clamp(max=_CERTAIN)
    return bounded_P - torch.log(-torch.expm1(bounded_P))
