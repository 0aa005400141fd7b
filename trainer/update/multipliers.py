"""Lagrange multipliers of constrained costs: they grow while a mean cost is above its limit.

The ascent step of PPO-Lagrangian (Ray et al. 2019, https://cdn.openai.com/safexp-short.pdf), by plain
gradient in place of Adam; ``trainer.advantage.constraints`` is the policy's side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.config.constraint import ConstraintConfig


def initial_multipliers(constraints: Sequence[ConstraintConfig]) -> dict[str, float]:
    """Return the multipliers at the first step, by cost."""
    return {each.cost: each.initial for each in constraints}


def updated_multipliers(
    multipliers: Mapping[str, float], costs: Mapping[str, float], constraints: Sequence[ConstraintConfig]
) -> dict[str, float]:
    """Return the multipliers after a step with these mean costs of an episode; one without a cost stays."""
    moved = {
        each.cost: multipliers[each.cost]
        + each.learning_rate * (costs.get(each.cost, each.limit) - each.limit)
        for each in constraints
    }
    return {each.cost: min(max(moved[each.cost], 0.0), each.most) for each in constraints}
