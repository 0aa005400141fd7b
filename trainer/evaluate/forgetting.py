"""Average forgetting over a sequence of task families (Chaudhry et al. 2018,
https://arxiv.org/abs/1801.10112, section 3.2).

With a(l, j) the success on family j after phase l, the forgetting of j after phase k is the greatest a(l, j)
of the phases l before k minus a(k, j); the average is over the families of earlier phases that phase k does
not train. It is negative where later phases help. Each difference is over the tasks that both phases have a
score for, each counting the same: pooled over episodes, a phase that lost episodes of hard tasks to failures
would look as if it had learned. Left out: intransigence, which needs a model that was trained on all families
at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .comparison import common_rates

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
    """By source, without sources that have no episode with a verdict; each task counts the same."""
    forgetting: Mapping[str, float]
    """By source of earlier phases, where an earlier phase has a score for some of the same tasks."""

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
    parts: list[dict[str, EvaluationResult]] = []
    earlier: list[str] = []
    done = 0
    for phase in phases:
        done += phase.steps
        if done not in at:
            break
        present = at[done].by_source()
        rates = {name: _success(part) for name, part in present.items()}
        success = {name: rate for name, rate in rates.items() if rate is not None}
        losses = {
            name: _greatest_loss([each[name] for each in parts if name in each], present[name])
            for name in dict.fromkeys(earlier)
            if name not in phase.sources and name in present
        }
        forgetting = {name: loss for name, loss in losses.items() if loss is not None}
        found.append(PhaseOutcome(phase.key, done, success, forgetting))
        parts.append(present)
        earlier += phase.sources
    return tuple(found)


def _success(part: EvaluationResult) -> float | None:
    rates = [task.successes / task.episodes for task in part.tasks if task.episodes]
    return sum(rates) / len(rates) if rates else None


def _greatest_loss(earlier: Sequence[EvaluationResult], present: EvaluationResult) -> float | None:
    """Return the greatest success of an earlier phase minus the present one; None without a common task."""
    rates = [common_rates(before, present) for before in earlier]
    return max((float((each[:, 0] - each[:, 1]).mean()) for each in rates if len(each)), default=None)
