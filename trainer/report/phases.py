"""Phases of a run with several sources: success on each source at the end of each phase, and forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from trainer.evaluate.forgetting import phase_outcomes

from .evaluation_text import rate_text
from .figure import PALETTE, Figure

if TYPE_CHECKING:
    from trainer.evaluate.forgetting import PhaseOutcome

    from .figure import JsonTree
    from .run_data import RunData


def phase_table(run: RunData) -> str:
    """Return success by source after each phase, and average forgetting, as HTML; empty without phases."""
    outcomes = _outcomes(run)
    if not outcomes:
        return ""
    names = _sources(outcomes)
    head = "".join(f"<th>{escape(name)}</th>" for name in ("after phase", "step", *names, "forgetting"))
    rows = "".join(_row(outcome, names) for outcome in outcomes)
    note = (
        "Success on held-out tasks of each source, each task counting the same. Forgetting: the best success "
        "after an earlier phase minus the present one, on the tasks that both have a score for, mean over "
        "sources of earlier phases that the phase does not train."
    )
    return f'<div class="wide"><table class="figures"><tr>{head}</tr>{rows}</table></div><p>{note}</p>'


def phase_plot(run: RunData) -> Figure | None:
    """Plot success by source at the end of each phase."""
    outcomes = _outcomes(run)
    if not outcomes:
        return None
    labels = [f"{place}: {outcome.name}" for place, outcome in enumerate(outcomes, start=1)]
    traces: list[JsonTree] = [
        {
            "type": "bar",
            "name": name,
            "x": labels,
            "y": [outcome.success.get(name) for outcome in outcomes],
            "marker": {"color": PALETTE[place % len(PALETTE)]},
        }
        for place, name in enumerate(_sources(outcomes))
    ]
    layout: JsonTree = {
        "barmode": "group",
        "xaxis": {"title": {"text": "after phase"}},
        "yaxis": {"range": [0, 1], "title": {"text": "success"}},
    }
    note = "Success on held-out tasks of each source at the end of each phase, each task counting the same."
    return Figure("Success by phase", tuple(traces), note, layout)


def _outcomes(run: RunData) -> tuple[PhaseOutcome, ...]:
    phases = run.config.tasks.phases if run.config is not None else ()
    return phase_outcomes(phases, run.evaluations)


def _sources(outcomes: Sequence[PhaseOutcome]) -> list[str]:
    return list(dict.fromkeys(name for outcome in outcomes for name in outcome.success))


def _row(outcome: PhaseOutcome, names: list[str]) -> str:
    average = outcome.average
    cells = [
        outcome.name,
        str(outcome.step),
        *(rate_text(outcome.success.get(name)) for name in names),
        "" if average is None else f"{100 * average:+.1f} points",
    ]
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
