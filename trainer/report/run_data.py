"""What a run's folder holds, as far as a report needs it. Whatever is missing is left out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainer.config import RunConfig
from trainer.config.writing import to_toml
from trainer.errors import DataError
from trainer.evaluate.results import read_evaluations
from trainer.tracking.jsonl import read_metrics

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.evaluate.results import EvaluationResult

__all__ = ["RunData", "read_run_data"]


@dataclass(frozen=True, slots=True)
class RunData:
    """A run, read from its folder."""

    folder: Path
    name: str
    metrics: dict[int, dict[str, float]]
    """By step, those of the warm start first."""
    evaluations: tuple[EvaluationResult, ...]
    warm_steps: int
    """Steps of the warm start."""
    config: str
    """As TOML; empty when the folder has none."""
    steps_of_groups: dict[int, int]
    """The step that trained on a group first, by the group's index; counted as metrics are."""


def read_run_data(folder: Path) -> RunData:
    """Everything but the episodes. Raises DataError when it is no run's folder."""
    metrics = read_metrics(folder / "metrics.jsonl")
    evaluations = read_evaluations(folder / "evaluations.jsonl")
    if not metrics and not evaluations and not (folder / "trajectories.jsonl").exists():
        raise DataError(
            f"{folder} holds no run: there are neither metrics, evaluations nor trajectories in it"
        )
    config = _config(folder / "run.json")
    warm = config.warm_start.steps if config is not None and config.warm_start is not None else 0
    return RunData(
        folder=folder,
        name=config.name if config is not None else folder.absolute().name,
        metrics=metrics,
        evaluations=evaluations,
        warm_steps=warm,
        config=to_toml(config) if config is not None else "",
        steps_of_groups=_consumed(folder / "consumed.jsonl", warm),
    )


def _config(file: Path) -> RunConfig | None:
    try:
        return RunConfig.model_validate_json(file.read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return None


def _consumed(file: Path, warm: int) -> dict[int, int]:
    """A line is ``{"step": ..., "trajectories": [ids]}``, steps counted after the warm start."""
    steps: dict[int, int] = {}
    if not file.exists():
        return steps
    with file.open(encoding="utf-8") as lines:
        for text in lines:
            try:
                line = json.loads(text)
                for name in line["trajectories"]:
                    steps.setdefault(int(name.partition(".")[0]), warm + int(line["step"]))
            except (ValueError, TypeError, KeyError, AttributeError):
                continue  # a line that a crash cut off
    return steps
