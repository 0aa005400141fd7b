"""Constrained policy optimisation: costs with Lagrange multipliers, subtracted from rewards.

PPO-Lagrangian (Ray et al. 2019, https://cdn.openai.com/safexp-short.pdf): maximise the mean reward R under
mean costs C_i <= limit_i by maximising (R - sum of lambda_i C_i) / (1 + sum of lambda_i) in the policy, and
ascending in each lambda_i >= 0 by its constraint's violation. The division keeps the size of rewards, as in
their code and in Stooke et al. 2020 (https://arxiv.org/abs/2007.03964). It works with any advantage. Left
out: a critic of its own for each cost, and the PID controller of the latter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from trainer.config.constraint import ConstraintConfig
    from trainer.types import FloatT, Sample


def constrained(sample: Sample, rewards_T: FloatT, multipliers: Mapping[str, float]) -> FloatT:
    """Return rewards minus costs times their multipliers, token by token, divided by 1 + all multipliers."""
    total_T = rewards_T.astype(np.float64)
    for name, multiplier in multipliers.items():
        total_T = total_T - multiplier * sample.costs[name]
    return np.asarray(total_T / (1.0 + sum(multipliers.values())), dtype=np.float32)


def mean_costs(
    samples: Sequence[Sample], constraints: Sequence[ConstraintConfig], replayed: Collection[int] = ()
) -> dict[str, float]:
    """Return the mean cost of an episode for each constraint, over the episodes that count; none without one.

    Replayed groups do not: earlier policies played them, whose costs say nothing of this one's.
    A counterpart's tokens, in a group below 0, are no episode of their own and cost nothing.
    """
    counted = [
        sample
        for sample in samples
        if sample.weight > 0 and sample.group >= 0 and sample.group not in replayed
    ]
    episodes = len({sample.trajectory_id for sample in counted})
    if not episodes:
        return {}
    return {
        each.cost: sum(float(sample.costs[each.cost].sum()) for sample in counted) / episodes
        for each in constraints
    }
