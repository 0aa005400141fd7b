"""The tables of a comparison as cells of text, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from .evaluation_text import count_text, mean_text, share_text

if TYPE_CHECKING:
    from trainer.evaluate.model_comparison import ModelComparison, PairedTest


_MOST_NAMED = 10
PAIR_COLUMNS = (
    *("pair", "tasks", "difference in points", "tasks better, worse"),
    *("test", "p", "p after Holm", "difference shown"),
)
CAUSE_COLUMN = "unsolved because of"


def model_columns(comparison: ModelComparison) -> tuple[str, ...]:
    """Return the heads of ``model_rows``."""
    passes = tuple(f"pass@{k}" for k in comparison.ks if k > 1)
    return ("model", "episodes", "success", *passes, "score", "turns", "tokens", "seconds", "failed")


def model_rows(comparison: ModelComparison) -> Iterator[tuple[str, ...]]:
    """Yield the figures of each model on the common tasks."""
    for name, figures in comparison.models.items():
        yield (
            name,
            str(figures.episodes),
            share_text(figures.success),
            *(share_text(figures.pass_at.get(k)) for k in comparison.ks if k > 1),
            f"{figures.score:.3f}" if figures.score is not None else "-",
            mean_text(figures.turns, 1),
            mean_text(figures.tokens, 0),
            mean_text(figures.seconds, 2),
            count_text(figures.failures, figures.failure_classes),
        )


def pair_rows(pairs: Iterable[PairedTest]) -> Iterator[tuple[str, ...]]:
    """Yield the paired differences."""
    for pair in pairs:
        low, high = 100 * pair.interval.low, 100 * pair.interval.high
        yield (
            f"{pair.second} - {pair.first}",
            str(pair.tasks),
            f"{100 * pair.difference:+.1f} ({low:+.1f} to {high:+.1f})",
            f"{pair.wins}, {pair.losses}",
            pair.test,
            f"{pair.p_value:.2g}",
            f"{pair.adjusted:.2g}",
            "yes" if pair.significant else "no",
        )


def cause_columns(comparison: ModelComparison) -> tuple[str, ...]:
    """Return the heads of ``cause_rows``."""
    return (CAUSE_COLUMN, *comparison.models)


def cause_rows(comparison: ModelComparison) -> Iterator[tuple[str, ...]]:
    """Yield the causes of unsolved episodes by model; none if no file has them."""
    figures = comparison.models.values()
    for cause in dict.fromkeys(cause for each in figures for cause in each.causes):
        yield (cause.replace("_", " "), *(str(each.causes.get(cause, 0)) for each in figures))


def remarks(comparison: ModelComparison) -> Iterator[str]:
    """Yield sentences about the method, and about tasks that are left out."""
    yield (
        f"{comparison.tasks} tasks of {comparison.environment or 'one environment'}: {comparison.split}. "
        "Intervals are 95%, by bootstrap over tasks; those of differences are paired by task. Each task "
        "counts the same, however many of its episodes have a score."
    )
    for k in comparison.ks:
        counts = {found.tasks for each in comparison.models.values() if (found := each.pass_at.get(k))}
        fewest = min(counts, default=0)
        if fewest < comparison.tasks:
            yield f"pass@{k} is over the {fewest} tasks of which all models have {k} episodes with a score."
    for name, tasks in comparison.missing.items():
        listed = ", ".join(tasks[:_MOST_NAMED])
        more = f" and {len(tasks) - _MOST_NAMED} more" if len(tasks) > _MOST_NAMED else ""
        yield f"{name} has no score for {len(tasks)} tasks that others have: {listed}{more}."


def comparison_markdown(comparison: ModelComparison) -> str:
    """Return the tables as Markdown."""
    tables = [
        markdown_table(model_columns(comparison), model_rows(comparison)),
        markdown_table(PAIR_COLUMNS, pair_rows(comparison.pairs)),
    ]
    if causes := list(cause_rows(comparison)):
        tables.append(markdown_table(cause_columns(comparison), causes))
    return "\n\n".join([*tables, *remarks(comparison)]) + "\n"


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; bars in cells are escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
