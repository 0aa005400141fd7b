"""The results of an evolution so far, read from its folder, for tables, JSON and the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from .records import Decision, Explored, Selected, Trained

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trainer.evaluate.results import EvaluationResult

    from .folder import EvolutionFolder, IterationFolder


@dataclass(frozen=True, slots=True)
class IterationResult:
    """The results of an iteration; None for phases that are not done."""

    number: int
    explored: Explored | None
    selected: Selected | None
    trained: Trained | None
    evaluation: EvaluationResult | None
    decision: Decision | None

    @property
    def verdict(self) -> str:
        """The decision in a word."""
        if self.number == 0:
            return "base"
        if self.decision is None:
            return "in progress"
        return "kept" if self.decision.kept else "rolled back"

    def to_json(self) -> dict[str, object]:
        """Return the results for other programs."""
        result = self.evaluation
        held_out = None
        if result is not None:
            judged = result.episodes > 0
            held_out = {
                "success": result.success_rate,
                "low": result.interval.low if judged else None,
                "high": result.interval.high if judged else None,
                "episodes": result.episodes,
            }
        phases = {"explored": self.explored, "selected": self.selected, "trained": self.trained}
        return {
            "iteration": self.number,
            **{name: None if phase is None else asdict(phase) for name, phase in phases.items()},
            "held_out": held_out,
            "decision": None if self.decision is None else asdict(self.decision),
        }


@dataclass(frozen=True, slots=True)
class EvolutionResult:
    """The result of an evolution."""

    folder: Path
    kept: int
    """The iteration whose model is kept; 0 is the base model."""
    model: Path
    """Folder of that model."""
    iterations: Sequence[IterationResult]


def read_history(folder: EvolutionFolder) -> Sequence[IterationResult]:
    """Return the results of all iterations that have begun. Raises CheckpointError for an invalid file."""
    return [_result(iteration) for iteration in folder.iterations()]


def _result(folder: IterationFolder) -> IterationResult:
    return IterationResult(
        folder.number,
        folder.read(Explored),
        folder.read(Selected),
        folder.read(Trained),
        folder.read_evaluation(),
        folder.read(Decision),
    )
