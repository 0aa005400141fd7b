"""Tables of an evaluation: success, cost, causes of unsolved episodes, and failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from trainer.report.evaluation_text import mean_text

from .figures import interval_text, percent
from .wide_tables import WideTable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trainer.evaluate.results import EvaluationResult
    from trainer.evaluate.summary import Estimate, EvaluationFigures, EvaluationSummary, MeanEstimate


Rows = dict[str, "EvaluationFigures"]


def evaluation_view(result: EvaluationResult, summary: EvaluationSummary) -> RenderableType:
    """Show one evaluation: all tasks, and each source, environment, split, category and difficulty."""
    rows: Rows = {f"all of {result.split.replace('+', ' + ')}": summary.overall}
    for section, groups in summary.sections().items():
        rows |= {f"{section} {name or 'not named'}": figures for name, figures in groups.items()}
    parts = [_success(rows), _costs(rows)]
    parts.append(_counts("unsolved because of", "episodes", summary.overall.causes))
    parts.append(_counts("failed, without a score", "episodes", summary.overall.failure_classes))
    note = (
        "Intervals are 95%, by bootstrap over tasks. Episodes that failed have no score and do not count as "
        "unsolved."
    )
    return Group(*(part for part in parts if part is not None), Text(note, style="dim"))


def _success(rows: Rows) -> RenderableType:
    ks = [k for k in next(iter(rows.values())).pass_at if k > 1]
    shares = ("success", *(f"pass@{k}" for k in ks))
    return WideTable(
        ("tasks", "episodes", "solved", *shares, "score", "failed"),
        [
            (
                name,
                str(figures.episodes),
                str(figures.successes),
                _share(figures.success),
                *(_share(figures.pass_at.get(k)) for k in ks),
                f"{figures.score:.3f}" if figures.score is not None else "-",
                str(figures.failures),
            )
            for name, figures in rows.items()
        ],
    )


def _share(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    return f"{percent(estimate.value)} ({interval_text(estimate.interval)})"


def _costs(rows: Rows) -> RenderableType | None:
    if all(figures.turns is None for figures in rows.values()):
        return None
    columns = ("mean of an episode", "reward", "turns", "tokens", "seconds")
    return WideTable(columns, [(name, *_cost_cells(figures)) for name, figures in rows.items()])


def _cost_cells(figures: EvaluationFigures) -> Iterator[str]:
    digits = {"reward": 3, "turns": 1, "tokens": 0, "seconds": 2}
    for name, count in digits.items():
        estimate: MeanEstimate | None = getattr(figures, name)
        yield mean_text(estimate, count)


def _counts(title: str, unit: str, counts: Mapping[str, int]) -> RenderableType | None:
    if not counts:
        return None
    return WideTable((title, unit), [(name.replace("_", " "), str(count)) for name, count in counts.items()])
