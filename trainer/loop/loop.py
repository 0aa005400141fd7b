"""The loop: take, annotate, credit, update, publish; and again.

It runs on every rank of the learner's worker group. All ranks see the same batches and keep the same pace,
since annotating, updating and publishing are collective; what is for one alone, rank 0 does.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from trainer.advantage.credit import credit
from trainer.types import Objective

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trainer.config import OptimizerConfig, RunConfig
    from trainer.types import Batch

    from .plan import Plan, Stage

__all__ = ["Experience", "Learner", "Publisher", "Recorder", "TrainingLoop"]


class Experience(Protocol):
    """Where batches come from. Every call is idempotent and has a deadline."""

    def imitation(self, step: int) -> Batch:
        """A step's demonstrations."""
        ...

    def take(self, step: int) -> Batch:
        """A step's trajectories, scored."""
        ...

    def published(self, version: int) -> None:
        """The engines sample with these weights from now on."""
        ...

    def evaluate(self, step: int) -> Mapping[str, float]:
        """Success on held-out tasks; the same step is evaluated once."""
        ...


class Learner(Protocol):
    """The model that is trained."""

    @property
    def kl_coefficient(self) -> float:
        """Weight of the distance to the reference model, as it has adapted."""
        ...

    def begin(self, optimizer: OptimizerConfig, steps: int) -> None:
        """A fresh optimizer and schedule."""
        ...

    def annotate(self, batch: Batch) -> Batch:
        """Log-probabilities and values as of now."""
        ...

    def update(self, batch: Batch) -> dict[str, float]:
        """Learn from a batch with advantages."""
        ...


class Publisher(Protocol):
    """The way of the weights to the engines."""

    def publish(self, version: int, batch: Batch | None = None) -> Mapping[str, float]:
        """Have the engines sample with the learner's weights, last trained on ``batch``. Raises StaleWeights.

        When it returns, on any rank, the engines have them.
        """
        ...


class Recorder(Protocol):
    """Who keeps what a step led to."""

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics of a step."""
        ...

    def checkpoint(self, step: int, stage: int) -> None:
        """Keep everything that is needed to go on after ``step`` steps; collective."""
        ...

    def export(self, step: int) -> None:
        """Write the model as others load it after ``step`` steps, if that is due; collective."""
        ...


@dataclass(slots=True)
class Clock:
    """Seconds by phase."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what the block takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[f"time/{name}"] = time.monotonic() - began


@dataclass(frozen=True, slots=True)
class TrainingLoop:
    """One run on one rank."""

    config: RunConfig
    plan: Plan
    experience: Experience
    learner: Learner
    publisher: Publisher
    recorder: Recorder

    def run(self, start: int = 0, begun: int | None = None) -> None:
        """All steps from ``start`` on; ``begun`` is the stage whose optimizer is there already."""
        for stage in self.plan.from_step(start):
            if stage.index != begun:
                self.learner.begin(stage.optimizer, stage.steps)
            if stage.objective is Objective.REINFORCE:
                self._hand_over(max(start, stage.first), stage)
            for step in range(max(start, stage.first), stage.last):
                self._step(step, stage)

    def _step(self, step: int, stage: Stage) -> None:
        clock = Clock()
        with clock.phase("take"):
            batch = self._take(stage, stage.local(step))
        with clock.phase("annotate"):
            if stage.objective is Objective.REINFORCE:
                batch = self.learner.annotate(batch)
        batch = credit(batch, self.config.algorithm, self.learner.kl_coefficient)
        with clock.phase("update"):
            metrics = self.learner.update(batch)
        with clock.phase("publish"):
            sync = self._publish(step + 1, stage, batch)
        self.recorder.record(step, {**batch.facts, **metrics, **sync, **clock.seconds})
        self._milestones(step + 1, stage)

    def _take(self, stage: Stage, local: int) -> Batch:
        if stage.objective is Objective.IMITATE:
            return self.experience.imitation(local)
        return self.experience.take(local)

    def _publish(self, done: int, stage: Stage, batch: Batch) -> Mapping[str, float]:
        version = stage.local(done)
        due = version % self.config.sync.every == 0 or done == stage.last
        if stage.objective is Objective.IMITATE or not due:
            return {}
        report = self.publisher.publish(version, batch)
        self.experience.published(version)
        return report

    def _hand_over(self, step: int, stage: Stage) -> None:
        """The engines have nobody's weights, or those of a run that was cut off: give them ours."""
        self.publisher.publish(stage.local(step))
        self.experience.published(stage.local(step))
        self._evaluate(step, stage)

    def _milestones(self, done: int, stage: Stage) -> None:
        """What is due after a step; a run that was checkpointed at its end is evaluated too."""
        if stage.objective is Objective.REINFORCE:
            self._evaluate(done, stage)
        if done % self.config.checkpoint.every == 0 or done == stage.last:
            self.recorder.checkpoint(done, stage.index)
        self.recorder.export(done)

    def _evaluate(self, step: int, stage: Stage) -> None:
        evaluation = self.config.evaluation
        due = evaluation.every and stage.local(step) % evaluation.every == 0
        if evaluation.splits and (due or step in (stage.first, stage.last)):
            clock = Clock()
            with clock.phase("evaluate"):
                figures = self.experience.evaluate(stage.local(step))
            self.recorder.record(step, {**figures, **clock.seconds})
