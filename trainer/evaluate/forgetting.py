"""Average forgetting over a sequence of task families (Chaudhry et al. 2018,
https://arxiv.org/abs/1801.10112, section 3.2).

With a(l, j) the success on family j after phase l, the forgetting of j after phase k is the greatest a(l, j)
of the phases l before k minus a(k, j); the average is over the families of earlier phases that phase k does
not train. It is negative where later phases help. Left out: intransigence, which needs a model that was
trained on all families at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainer.config import PhaseConfig

    from .results import EvaluationResult


@dataclass(frozen=True, slots=True)
class PhaseOutcome:
    """Held-out success at the end of a phase."""

    name: str
    step: int
    """Steps of reinforcement learning that are done."""
    success: Mapping[str, float]
    """By source, without sources that have no episode with a verdict."""
    forgetting: Mapping[str, float]
    """By source of earlier phases."""

    @property
    def average(self) -> float | None:
        """Average forgetting; None after the first phase, or where all earlier sources are trained again."""
        return sum(self.forgetting.values()) / len(self.forgetting) if self.forgetting else None


def phase_outcomes(
    phases: Sequence[PhaseConfig], evaluations: Sequence[EvaluationResult], first: int = 0
) -> tuple[PhaseOutcome, ...]:
    """Return the outcomes of the phases that were evaluated at their ends, in order.

    Args:
        phases: the run's phases.
        evaluations: its evaluations.
        first: step at which reinforcement learning begins, as the evaluations count.
    """
    at = {result.step - first: result for result in evaluations if result.when != "alone"}
    found: list[PhaseOutcome] = []
    earlier: list[str] = []
    done = 0
    for phase in phases:
        done += phase.steps
        if done not in at:
            break
        rates = {name: part.success_rate for name, part in at[done].by_source().items()}
        success = {name: rate for name, rate in rates.items() if rate is not None}
        forgetting = {
            name: max(each.success[name] for each in found if name in each.success) - success[name]
            for name in dict.fromkeys(earlier)
            if name not in phase.sources and name in success and any(name in each.success for each in found)
        }
        found.append(PhaseOutcome(phase.key, done, success, forgetting))
        earlier += phase.sources
    return tuple(found)
