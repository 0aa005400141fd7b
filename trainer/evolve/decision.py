"""Decide whether the model of an iteration is kept or rolled back; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trainer.evaluate.comparison import compare

from .records import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.evaluate.comparison import Comparison
    from trainer.evaluate.results import EvaluationResult

    Rule = Literal["better", "higher", "not_worse", "always"]


def decide(before: EvaluationResult, after: EvaluationResult, rule: Rule) -> Decision:
    """Compare the model of an iteration with the one kept before, on the same held-out tasks.

    Raises DataError when the two evaluations share no task with a score.
    """
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


def nothing_selected(explored: int) -> Decision:
    """Return the decision of an iteration whose exploration gave nothing to train on."""
    return Decision(
        kept=False,
        reason=f"none of {explored} explored episodes was selected, so that no model was trained; lower "
        "evolve.select.threshold, or explore more with evolve.explore.tasks and evolve.explore.episodes",
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
