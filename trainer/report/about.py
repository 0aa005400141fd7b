"""Describe a run in a line: its model and tasks, when and where it ran, and its code version."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from trainer.config import TinyModel

if TYPE_CHECKING:
    from trainer.config import RunConfig

    from .run_data import RunData


def about(run: RunData) -> str:
    """Return the line as HTML."""
    shown = (f"<span>{escape(name)} <b>{escape(value)}</b></span>" for name, value in facts(run).items())
    return " ".join(shown)


def facts(run: RunData) -> dict[str, str]:
    """Return the known facts by name."""
    return dict(_facts(run))


def _facts(run: RunData) -> Iterator[tuple[str, str]]:
    if run.config is not None:
        yield "model", _model(run.config)
        splits = ", ".join(run.config.tasks.splits)
        yield "tasks", ": ".join(filter(None, (run.config.tasks.environment, splits)))
    clocks = [values["clock"] for values in run.steps if "clock" in values]
    started = run.origin.started if run.origin is not None else min(clocks, default=None)
    if started is not None:
        yield "started", _date(started)
    if clocks:
        yield "last step", _date(max(clocks))
    if run.origin is not None:
        yield "host", run.origin.host
        if run.origin.version:
            yield "version", run.origin.version
        if run.origin.commit:
            yield "commit", run.origin.commit


def _model(config: RunConfig) -> str:
    model = config.model
    if isinstance(model, TinyModel):
        return f"tiny {model.family}, {model.layers} layers of {model.hidden}"
    return model.path


def _date(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
