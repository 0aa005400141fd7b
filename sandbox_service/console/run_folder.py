"""Read training runs from their folders: metrics, which groups a step trained on, episodes, stall reports.

Files are read on from where the last reading ended, and a group's line is found by its offset and parsed
when it is shown, so a live run of gigabytes costs what is new of it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from .growing_file import GrowingFile
from .run_records import RunAdvantages, RunGroup

if TYPE_CHECKING:
    from sandbox_contract.base import JsonObject


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_INDEX = re.compile(rb'"(?:index|group)":\s*(\d{1,18})')
_HEAD = 256
"""Bytes of a line in which the group's index stands."""
_GROUP: TypeAdapter[RunGroup] = TypeAdapter(RunGroup)
_ADVANTAGES: TypeAdapter[RunAdvantages] = TypeAdapter(RunAdvantages)
_WARM = frozenset({"loss/sft", "loss/preferences", "loss/reward_model"})
"""Metrics of stages before reinforcement learning, one of which each of their steps has."""
_STALL = "waiting for "
_LOG_BYTES = 64 * 1024
"""The end of the log in which stall reports are looked for."""


class TrainingRun:
    """One run. Its methods block and may be called by several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._metrics_file = GrowingFile(path / "metrics.jsonl")
        self._consumed_file = GrowingFile(path / "consumed.jsonl")
        self._groups_file = GrowingFile(path / "trajectories.jsonl")
        self._advantages_file = GrowingFile(path / "advantages.jsonl")
        self._metrics: dict[int, dict[str, float]] = {}
        self._steps: dict[int, int] = {}
        self._places: dict[int, int] = {}
        self._advantage_places: dict[int, int] = {}
        self._lock = Lock()

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    def read_metrics(self) -> Mapping[int, Mapping[str, float]]:
        """Return the finite metrics by step, in order; of a step that was logged twice, the latest values."""
        with self._lock:
            for _, line in self._metrics_file.read_new(self._metrics.clear):
                step, metrics = _metrics_of(line)
                if step is not None:
                    self._metrics.setdefault(step, {}).update(metrics)
            return dict(sorted(self._metrics.items()))

    def read_steps(self) -> Mapping[int, tuple[int, ...]]:
        """Return the groups that each step trained on first.

        Steps are counted as in the metrics, those before reinforcement learning included.
        """
        begin = first_learning_step(self.read_metrics())
        with self._lock:
            for _, line in self._consumed_file.read_new(self._steps.clear):
                for group, step in _consumed(line):
                    self._steps.setdefault(group, step)
            found: dict[int, list[int]] = {}
            for group, step in sorted(self._steps.items()):
                found.setdefault(begin + step, []).append(group)
            return {step: tuple(groups) for step, groups in found.items()}

    def group(self, index: int) -> RunGroup | None:
        """Return a group with all that was recorded of its episodes; None if there is none."""
        line = self._line_of(index, self._groups_file, self._places)
        try:
            return None if line is None else _GROUP.validate_json(line)
        except ValidationError:
            return None

    def update_of(self, index: int) -> RunAdvantages | None:
        """Return the record of a group's update, the latest of several; None if there is none."""
        line = self._line_of(index, self._advantages_file, self._advantage_places)
        try:
            return None if line is None else _ADVANTAGES.validate_json(line)
        except ValidationError:
            return None

    def _line_of(self, index: int, file: GrowingFile, places: dict[int, int]) -> bytes | None:
        """Return the last line of a group; ``places`` is brought up to date with the file."""
        with self._lock:
            for place, line in file.read_new(places.clear):
                if (found := _INDEX.search(line[:_HEAD])) is not None:
                    places[int(found[1])] = place
            place_of = places.get(index)
        return None if place_of is None else file.line_at(place_of)

    def stall_reports(self, most: int = 20) -> list[str]:
        """Return the latest stall reports of the run's log, the newest first."""
        try:
            with (self.path / "logs" / "batches.log").open("rb") as log:
                log.seek(max(0, log.seek(0, 2) - _LOG_BYTES))
                text = log.read().decode("utf-8", "replace")
        except OSError:
            return []
        return [line for line in text.splitlines() if _STALL in line][::-1][:most]

    def settings(self) -> JsonObject:
        """Return the run's settings; empty if they cannot be read."""
        try:
            settings = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return settings if isinstance(settings, dict) else {}


class RunFolders:
    """The runs under one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, TrainingRun] = {}

    def list_runs(self) -> list[TrainingRun]:
        """Return the runs, the one that wrote last first. Blocks."""
        try:
            names = [entry.name for entry in self._root.iterdir() if (entry / "metrics.jsonl").is_file()]
        except OSError:
            return []
        runs = [run for name in names if (run := self.find_run(name)) is not None]
        return sorted(runs, key=written_at, reverse=True)

    def find_run(self, name: str) -> TrainingRun | None:
        """Return the run of that name directly under the folder; None if there is none."""
        if _NAME.fullmatch(name) is None:
            return None
        path = self._root / name
        if not ((path / "metrics.jsonl").is_file() or (path / "trajectories.jsonl").is_file()):
            return None
        return self._known.setdefault(name, TrainingRun(path))


def written_at(run: TrainingRun) -> float:
    """Return the unix time at which a run last wrote metrics; 0 if it never did."""
    try:
        return (run.path / "metrics.jsonl").stat().st_mtime
    except OSError:
        return 0.0


def first_learning_step(metrics: Mapping[int, Mapping[str, float]]) -> int:
    """Return the step at which reinforcement learning begins, as counted in the metrics."""
    return max((step + 1 for step, values in metrics.items() if _WARM & values.keys()), default=0)


def _metrics_of(line: bytes) -> tuple[int | None, dict[str, float]]:
    try:
        parsed = json.loads(line)
        metrics = {str(name): float(value) for name, value in parsed["metrics"].items() if value is not None}
        return int(parsed["step"]), {name: value for name, value in metrics.items() if math.isfinite(value)}
    except (ValueError, TypeError, KeyError, AttributeError):
        return None, {}


def _consumed(line: bytes) -> list[tuple[int, int]]:
    try:
        parsed = json.loads(line)
        step = int(parsed["step"])
        return [(int(name.partition(".")[0]), step) for name in parsed["trajectories"]]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []
