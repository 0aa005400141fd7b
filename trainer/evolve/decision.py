"""Decide whether the model of an iteration is kept or rolled back; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from trainer.config.evolve import EvolvePreferences
from trainer.errors import DataError
from trainer.evaluate.comparison import compare
from trainer.evaluate.task_keys import tasks_by_key

from .records import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.config.evolve import EvolveMethod
    from trainer.evaluate.comparison import Comparison
    from trainer.evaluate.results import EvaluationResult


Rule: TypeAlias = Literal["better", "higher", "not_worse", "always"]

LEAST_GRADED = 0.9
"""Share of the held-out tasks that must have a verdict: failures choose which tasks are left, and an interval
over few of them is too narrow.
"""


def can_decide(evaluation: EvaluationResult, rule: Rule, before: EvaluationResult | None = None) -> bool:
    """Return whether enough of the held-out tasks have a verdict to decide by.

    Tasks that are at fault themselves (failure class ``task``) have none with any model, and do not count,
    unless the model that was evaluated ``before`` got a verdict on them.
    """
    graded = sum(task.episodes > 0 for task in evaluation.tasks)
    tasks, *earlier = tasks_by_key([evaluation] if before is None else [evaluation, before])
    sound = {key for found in earlier for key, task in found.items() if task.episodes}
    broken = sum(
        task.failure_classes.keys() == {"task"} and key not in sound
        for key, task in tasks.items()
        if not task.episodes
    )
    least = 0.0 if rule == "always" else LEAST_GRADED * (len(evaluation.tasks) - broken)
    return graded > 0 and graded >= least


def decide(before: EvaluationResult, after: EvaluationResult, rule: Rule) -> Decision:
    """Compare the model of an iteration with the one kept before, on the same held-out tasks.

    Raises DataError when the two evaluations share no task with a score, or failures left too few of one.
    """
    if not (can_decide(before, rule) and can_decide(after, rule, before)):
        raise DataError("too many held-out tasks have no verdict to decide by the others")
    change = compare(before, after)
    low, high = change.interval.low, change.interval.high
    kept = {
        "better": low > 0,
        "higher": change.difference > 0,
        "not_worse": high >= 0,
        "always": True,
    }[rule]
    return Decision(
        kept=kept,
        reason=_reason(change, rule, kept=kept),
        tasks=change.tasks,
        difference=change.difference,
        low=low,
        high=high,
    )


def nothing_selected(explored: int, method: EvolveMethod) -> Decision:
    """Return the decision of an iteration whose exploration gave nothing to train on."""
    cause, change = f"none of {explored} explored episodes was selected", "lower evolve.select.threshold"
    if isinstance(method, EvolvePreferences):
        cause = f"{explored} explored episodes gave no preference (selected.json has the reasons)"
        kto = method.loss.kind == "kto"
        change = "move evolve.train.method.desirable" if kto else "lower evolve.train.method.margin"
    return Decision(
        kept=False,
        reason=f"{cause}, so that no model was trained; {change}, or explore more with evolve.explore.tasks "
        "and evolve.explore.episodes",
    )


def rolled_back_in_a_row(decisions: Sequence[Decision]) -> int:
    """Return how many of the latest decisions rolled back."""
    count = 0
    for decision in reversed(decisions):
        if decision.kept:
            break
        count += 1
    return count


def _reason(change: Comparison, rule: Rule, *, kept: bool) -> str:
    points = f"{100 * change.difference:+.1f} points"
    rates = f"from {100 * change.before:.1f}% to {100 * change.after:.1f}%"
    interval = f"95% interval {100 * change.interval.low:+.1f} to {100 * change.interval.high:+.1f}"
    verdict = "kept" if kept else "rolled back"
    tasks = f"{change.tasks} tasks, each counting the same"
    return f"{verdict}: {points} {rates} ({interval}, {tasks}; evolve.keep={rule})"
