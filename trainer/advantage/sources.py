"""Normalise advantages by the source of their tasks, so that no environment dominates by its rewards' size.

As in multi-task reinforcement learning with PopArt (Hessel et al. 2019, https://arxiv.org/abs/1809.04474),
but with the statistics of the batch in place of running ones, so that there is no state beside the model.
Left out: the adaptive output layer of the critic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from .algorithms import Credit
from .ties import compared

if TYPE_CHECKING:
    from trainer.types import Sample

    from .chains import Chain


def normalised_by_source(
    samples: Sequence[Sample],
    episodes: Sequence[Chain],
    credits_N: Sequence[Credit],
    how: Literal["scale", "whiten"],
) -> list[Credit]:
    """Return the credits with advantages normalised over the trained tokens of each source.

    ``scale`` divides by their root mean square, ``whiten`` subtracts their mean and divides by their
    deviation. A source without a signal, whose values differ by rounding from 0 or their mean, gets zeros.
    """
    names = [samples[chain.samples[0]].source for chain in episodes]
    found = list(credits_N)
    for name in dict.fromkeys(names):
        mine = [place for place, each in enumerate(names) if each == name]
        trained = [credits_N[place].advantages_A for place in mine if episodes[place].trained]
        joined = np.concatenate(trained) if trained else np.zeros(0)
        if not len(joined):
            continue
        mean = float(joined.mean()) if how == "whiten" else 0.0
        # Dividing rounding errors by their own size would turn them into advantages of 1.
        signal = compared(joined, np.full_like(joined, mean))
        size = float(np.sqrt(np.square(signal).mean())) or np.inf
        for place in mine:
            credit = credits_N[place]
            found[place] = Credit((credit.advantages_A - mean) / size, credit.returns_A)
    return found
