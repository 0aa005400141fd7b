"""Identity preference optimization (IPO).

    loss = (h - 1 / (2 beta))^2 - a mean_t log pi(y_w)
    h = mean_t log pi(y_w) / ref(y_w) - mean_t log pi(y_l) / ref(y_l)

(Azar et al. 2023, equation 17, https://arxiv.org/abs/2310.12036; beta is the paper's tau). The log-ratios are
means over the tokens of a completion: the paper writes sums, and its authors confirmed to TRL that their
results were obtained with means. Unlike DPO's, the loss has a minimum at a finite margin, so that it does not
drive apart pairs whose preference is deterministic. a > 0 adds the likelihood of the preferred completion, as
Pang et al. 2024 do for DPO (https://arxiv.org/abs/2404.19733).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.config.preferences import IpoLoss

    from .types import CompletionPairs


def ipo_losses(pairs: CompletionPairs, config: IpoLoss) -> Tensor:
    """Return the loss of each pair, shape (P,)."""
    chosen_P = pairs.chosen.ratios / pairs.chosen.tokens_N
    rejected_P = pairs.rejected.ratios / pairs.rejected.tokens_N
    losses_P = (chosen_P - rejected_P - 1.0 / (2.0 * config.beta)).square()
    return losses_P - config.sft_weight * pairs.chosen.means
