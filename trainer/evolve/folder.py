"""The folder of an evolution: the base model, and a folder for each iteration with the results of its phases.

A phase is done when its file exists. Files are written under another name and renamed, so that an interrupted
phase leaves none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter, ValidationError

from sandbox_settings import first_mistake
from trainer.durable_files import write_durably
from trainer.errors import CheckpointError
from trainer.evaluate.results import EvaluationResult
from trainer.launch.new_start import CONFIG
from trainer.sft.warm_start import read_played, write_played

from .records import BaseModel, Decision, Explored, Selected, Trained

if TYPE_CHECKING:
    from trainer.types import Trajectory


_ITERATION = re.compile(r"iteration_(0|[1-9][0-9]*)")
"""Name of an iteration's folder; a copy beside it has another one."""

Record = TypeVar("Record", BaseModel, Explored, Selected, Trained, Decision)


class IterationFolder:
    """One iteration; number 0 is the base model, which is only evaluated."""

    def __init__(self, path: Path, number: int) -> None:
        self.path = path
        self.number = number

    @property
    def data(self) -> Path:
        """The episodes that the iteration trains on, one line of JSON each."""
        return self.path / "data.jsonl"

    @property
    def preferences(self) -> Path:
        """The preferences that the iteration trains on, in place of episodes, where its method needs them."""
        return self.path / "preferences.jsonl"

    @property
    def chosen(self) -> Path:
        """Those of them that the iteration explored."""
        return self.path / "selected.jsonl"

    def read(self, kind: type[Record]) -> Record | None:
        """Return the result of a phase; None when it is not done. Raises CheckpointError."""
        return _read(self.path / _NAMES[kind], kind)

    def write(self, record: BaseModel | Explored | Selected | Trained | Decision) -> None:
        """Write the result of a phase, which is then done."""
        _write(self.path / _NAMES[type(record)], TypeAdapter(type(record)).dump_json(record, indent=2))

    def read_evaluation(self) -> EvaluationResult | None:
        """Return the evaluation of the iteration's model; None before it is done. Raises DataError."""
        file = self.path / "evaluation.json"
        return EvaluationResult.from_json(file.read_text(encoding="utf-8")) if file.exists() else None

    def write_evaluation(self, result: EvaluationResult) -> None:
        """Write the evaluation of the iteration's model."""
        _write(self.path / "evaluation.json", result.to_json().encode())


class EvolutionFolder:
    """All iterations of an evolution."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def model(self) -> Path:
        """A link to the model that is kept."""
        return self.path / "model"

    @property
    def report(self) -> Path:
        """HTML page with success by iteration."""
        return self.path / "report.html"

    def open_iteration(self, number: int) -> IterationFolder:
        """Return the folder of an iteration, which is created if needed."""
        folder = IterationFolder(self.path / f"iteration_{number}", number)
        folder.path.mkdir(exist_ok=True)
        return folder

    def iterations(self) -> Sequence[IterationFolder]:
        """Return the folders of all iterations that have begun, in order."""
        named = (_ITERATION.fullmatch(each.name) for each in self.path.glob("iteration_*"))
        numbers = sorted(int(match[1]) for match in named if match is not None)
        return [IterationFolder(self.path / f"iteration_{number}", number) for number in numbers]

    def has_begun(self) -> bool:
        """Return whether the run of a phase has begun: one that was refused has released its name."""
        return any(self.path.glob(f"iteration_*/**/{CONFIG}"))

    def keep_model(self, model: Path) -> None:
        """Make ``model`` the one that is kept."""
        draft = self.path / "model.draft"
        draft.unlink(missing_ok=True)
        draft.symlink_to(model)
        draft.replace(self.model)


def write_episodes(file: Path, episodes: Sequence[Trajectory]) -> None:
    """Write episodes as a warm start keeps them."""
    write_played(file, episodes)


def read_episodes(file: Path) -> tuple[Trajectory, ...]:
    """Return the episodes of a file. Raises CheckpointError."""
    episodes = read_played(file)
    if episodes is None:
        raise CheckpointError(f"{file} is missing; start the evolution over with --force")
    return episodes


_NAMES: dict[type, str] = {
    BaseModel: "base.json",
    Explored: "explored.json",
    Selected: "selected.json",
    Trained: "trained.json",
    Decision: "decision.json",
}


def _read(file: Path, kind: type[Record]) -> Record | None:
    try:
        return TypeAdapter(kind).validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise CheckpointError(f"{file} is not the result of a phase: {first_mistake(error)}") from error


def _write(file: Path, content: bytes) -> None:
    write_durably(file, content + b"\n")
