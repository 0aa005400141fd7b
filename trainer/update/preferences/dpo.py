"""Direct preference optimization (DPO).

    loss = - (1 - e) log sigmoid(beta h) - e log sigmoid(- beta h) - a mean_t log pi(y_w | x)
    h = log pi(y_w | x) / ref(y_w | x) - log pi(y_l | x) / ref(y_l | x)

for the preferred completion y_w and the rejected one y_l of a prompt x (Rafailov et al. 2023, equation 7,
https://arxiv.org/abs/2305.18290). With e > 0 it is conservative DPO, for labels of which a share e is
exchanged (Mitchell 2023, https://ericmitchell.ai/cdpo.pdf). a > 0 adds the likelihood of the preferred
completion, which DPO alone often lowers (Pang et al. 2024, equation 1, https://arxiv.org/abs/2404.19733).
Left out: other divergences than the reverse KL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn.functional import logsigmoid

if TYPE_CHECKING:
    from torch import Tensor

    from trainer.config.preferences import DpoLoss

    from .types import CompletionPairs


def dpo_losses(pairs: CompletionPairs, config: DpoLoss) -> Tensor:
    """Return the loss of each pair, shape (P,)."""
    logits_P = config.beta * (pairs.chosen.ratios - pairs.rejected.ratios)
    smoothing = config.label_smoothing
    losses_P = -(1.0 - smoothing) * logsigmoid(logits_P) - smoothing * logsigmoid(-logits_P)
    return losses_P - config.sft_weight * pairs.chosen.means
