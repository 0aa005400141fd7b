"""Log-probabilities of completions, whole and in pairs.

Dimensions in names: ``_P`` pairs of a batch, ``_N`` completions of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Completions:
    """Completions of which each is a row of a batch."""

    logprobs_N: Tensor
    """Log-probability of each under the policy: the sum over its tokens, in nats, with gradient."""
    reference_N: Tensor
    """The same under the reference model; zeros where the loss needs none."""
    tokens_N: Tensor
    """Number of tokens of each."""

    @property
    def ratios(self) -> Tensor:
        """Log-ratio of policy and reference."""
        return self.logprobs_N - self.reference_N

    @property
    def means(self) -> Tensor:
        """Log-probability of a token, in the mean over each completion."""
        return self.logprobs_N / self.tokens_N

    def at(self, places: Tensor) -> Completions:
        """Return some of them, in the order of ``places``."""
        return Completions(self.logprobs_N[places], self.reference_N[places], self.tokens_N[places])


@dataclass(frozen=True, slots=True, eq=False)
class CompletionPairs:
    """Two completions of each prompt; row p of both belongs to pair p."""

    chosen: Completions
    rejected: Completions
