"""The interface through which an evolution reports its progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trainer.evaluate.results import EvaluationResult

    from .records import Decision


class EvolutionListener(Protocol):
    """Learns how an evolution goes on, to show it."""

    def begin_phase(self, number: int, phase: str, detail: str) -> None:
        """Note that a phase of an iteration begins."""
        ...

    def note_played(self, done: int, total: int) -> None:
        """Note how many of an exploration's tasks were played."""
        ...

    def note_step(self, step: int, metrics: dict[str, float]) -> None:
        """Note the metrics of a training step."""
        ...

    def note_warning(self, sentence: str) -> None:
        """Note a warning: the evolution goes on."""
        ...

    def end_iteration(
        self, number: int, evaluation: EvaluationResult | None, decision: Decision | None
    ) -> None:
        """Note the result of an iteration; number 0, the base model, has no decision."""
        ...
