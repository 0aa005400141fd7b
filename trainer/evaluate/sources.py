"""Find evaluations by a file or a run's folder, with a name in front if wanted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainer.errors import ConfigError, DataError
from trainer.tracking.jsonl import read_metrics
from trainer.tracking.stored_run import first_step, stored_config

from .results import EvaluationResult, read_evaluations

_RUN_FILE = "evaluations.jsonl"


def read_named_evaluations(sources: Sequence[str]) -> dict[str, EvaluationResult]:
    """Return the evaluations by name.

    A source is a file that ``evaluate -o`` wrote, or a run's folder, whose latest evaluation is taken.
    ``FOLDER@before``, ``FOLDER@after`` and ``FOLDER@STEP`` take another one; steps are those of reinforcement
    learning, as in the report. ``NAME=SOURCE`` names it; otherwise it is named after the file or folder.

    Raises ConfigError for a source that does not exist or two of one name, and DataError for a file that is
    not an evaluation.
    """
    named: dict[str, EvaluationResult] = {}
    for source in sources:
        name, place = _named(source)
        if name in named:
            raise ConfigError(f"two evaluations are named {name!r}; name them as in: first={source}")
        named[name] = read_evaluation(place)
    return named


def source_files(sources: Sequence[str]) -> list[Path]:
    """Return the files among the sources, which no output may replace."""
    return [path for source in sources if (path := Path(_named(source)[1])).is_file()]


def read_evaluation(source: str) -> EvaluationResult:
    """Return the evaluation of a source without a name. Raises as ``read_named_evaluations``."""
    path, chosen = Path(source), ""
    if not path.exists() and "@" in source:
        before, _, chosen = source.rpartition("@")
        path = Path(before)
    if path.is_dir():
        return _of_run(path, chosen)
    if not path.exists():
        raise ConfigError(f"{path} is neither a file of an evaluation nor the folder of a run")
    if path.name == _RUN_FILE:
        return _of_run(path.parent, chosen)
    if chosen:
        raise ConfigError(f"{path} is one evaluation: leave out @{chosen}")
    try:
        return EvaluationResult.from_json(path.read_bytes())
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def _named(source: str) -> tuple[str, str]:
    name, mark, place = source.partition("=")
    if mark and name and not Path(source).exists():
        return name, place
    path = Path(source)
    return (path.stem if path.is_file() else path.name or str(path.absolute())), source


def _of_run(folder: Path, chosen: str) -> EvaluationResult:
    found = read_evaluations(folder / _RUN_FILE)
    if not found:
        raise DataError(f"{folder} has no evaluations: set evaluation.splits in its run file")
    if not chosen:
        return found[-1]
    begin = first_step(stored_config(folder), read_metrics(folder / "metrics.jsonl"))
    steps = [max(0, each.step - begin) for each in found]
    for result, step in zip(reversed(found), reversed(steps), strict=True):
        if step == int(chosen) if chosen.isdecimal() else result.when == chosen:
            return result
    known = ", ".join(f"{each.when} (step {step})" for each, step in zip(found, steps, strict=True))
    raise ConfigError(f"{folder} has no evaluation {chosen!r}; it has: {known}")
