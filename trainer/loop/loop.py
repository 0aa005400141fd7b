"""The loop: take, annotate, credit, update, sync weights; and again.

It runs on every rank of the learner's worker group. All ranks see the same batches and keep the same pace,
since annotating, updating and syncing weights are collective; what is for one alone, rank 0 does.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from trainer.advantage.credit import credit
from trainer.types import Objective
from trainer.update.outline import filled, is_filled

from .throughput import step_throughput

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from trainer.config import OptimizerConfig, RunConfig
    from trainer.types import Batch
    from trainer.update.outline import RowTokens

    from .plan import Plan, Stage

__all__ = ["EngineSync", "Experience", "Learner", "Recorder", "TrainingLoop"]


class Experience(Protocol):
    """Where batches come from. Every call is idempotent and has a deadline."""

    def imitation(self, step: int) -> Batch:
        """A step's demonstrations, which may come without tokens."""
        ...

    def take(self, step: int) -> Batch:
        """A step's trajectories, scored, which may come without tokens."""
        ...

    def tokens(self, step: int, objective: Objective, places: Sequence[int]) -> RowTokens:
        """Tokens of some samples of a step's batch."""
        ...

    def weights_synced(self, version: int) -> None:
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

    def to_annotate(self, batch: Batch) -> Collection[int]:
        """Places of the samples whose tokens this rank needs to annotate a batch."""
        ...

    def to_learn(self, batch: Batch) -> Collection[int]:
        """Places of the samples whose tokens this rank needs to learn from a batch."""
        ...

    def annotate(self, batch: Batch) -> Batch:
        """Log-probabilities and values as of now."""
        ...

    def update(self, batch: Batch) -> dict[str, float]:
        """Learn from a batch with advantages."""
        ...


class EngineSync(Protocol):
    """The way of the weights to the engines."""

    def sync_weights(self, version: int, batch: Batch | None = None) -> Mapping[str, float]:
        """Have the engines sample with the learner's weights, last trained on ``batch``. Raises StaleWeights.

        When it returns, on any rank, the engines have them.
        """
        ...

    def rest(self) -> None:
        """The learner is about to compute: engines that share its GPUs may leave them to it."""
        ...

    def wake(self) -> None:
        """It has computed, and syncs nothing: they sample again."""
        ...


class Recorder(Protocol):
    """Who keeps what a step led to."""

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics of a step."""
        ...

    def checkpoint(self, step: int, stage: int) -> None:
        """Begin to keep everything that is needed to go on after ``step`` steps; collective."""
        ...

    def settle(self) -> None:
        """Wait for the checkpoint that is being kept, if there is one; collective."""
        ...

    def export(self, step: int) -> None:
        """Write the model as others load it after ``step`` steps, if that is due; collective."""
        ...


@dataclass(slots=True)
class Clock:
    """Seconds by phase."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str, *, more: bool = False) -> Iterator[None]:
        """Count what the block takes, or takes ``more`` of a phase that was counted."""
        began = time.monotonic()
        try:
            yield
        finally:
            before = self.seconds.get(f"time/{name}", 0.0) if more else 0.0
            self.seconds[f"time/{name}"] = before + time.monotonic() - began


@dataclass(frozen=True, slots=True)
class TrainingLoop:
    """One run on one rank."""

    config: RunConfig
    plan: Plan
    experience: Experience
    learner: Learner
    weight_sync: EngineSync
    recorder: Recorder
    workers: int = 1

    def run(self, start: int = 0, begun: int | None = None) -> None:
        """All steps from ``start`` on; ``begun`` is the stage whose optimizer is there already."""
        for stage in self.plan.from_step(start):
            if stage.index != begun:
                self.learner.begin(stage.optimizer, stage.steps)
            if stage.objective is Objective.REINFORCE:
                self._hand_over(max(start, stage.first), stage)
            for step in range(max(start, stage.first), stage.last):
                self._step(step, stage)
        self.recorder.settle()

    def _step(self, step: int, stage: Stage) -> None:
        clock = Clock()
        with clock.phase("take"):
            batch = self._take(stage, stage.local(step))
            batch = self._with_tokens(batch, self.learner.to_annotate(batch))
        with clock.phase("annotate"):
            self.weight_sync.rest()
            if stage.objective is Objective.REINFORCE:
                batch = self.learner.annotate(batch)
        batch = credit(batch, self.config.algorithm, self.learner.kl_coefficient)
        with clock.phase("take", more=True):
            batch = self._with_tokens(batch, self.learner.to_learn(batch))
        with clock.phase("update"):
            metrics = self.learner.update(batch)
        with clock.phase("checkpoint"):  # of a step before, which was written meanwhile
            self.recorder.settle()
        with clock.phase("publish"):
            sync = self._sync_weights(step + 1, stage, batch)
        speed = step_throughput(self.config, batch, sum(clock.seconds.values()), self.workers)
        self.recorder.record(step, {**batch.facts, **metrics, **sync, **speed, **clock.seconds})
        self._milestones(step + 1, stage)

    def _take(self, stage: Stage, local: int) -> Batch:
        if stage.objective is Objective.IMITATE:
            return self.experience.imitation(local)
        return self.experience.take(local)

    def _with_tokens(self, batch: Batch, places: Collection[int]) -> Batch:
        """The batch with the tokens of these samples; those that it has already are not asked for again."""
        missing = sorted(place for place in places if not is_filled(batch.samples[place]))
        if not missing:
            return batch
        return filled(batch, self.experience.tokens(batch.step, batch.objective, missing))

    def _sync_weights(self, done: int, stage: Stage, batch: Batch) -> Mapping[str, float]:
        version = stage.local(done)
        due = version % self.config.sync.every == 0 or done == stage.last
        if stage.objective is Objective.IMITATE:
            return {}
        if not due:
            self.weight_sync.wake()
            return {}
        here = tuple(sample for sample in batch.samples if is_filled(sample))
        report = self.weight_sync.sync_weights(version, replace(batch, samples=here))
        self.experience.weights_synced(version)
        return report

    def _hand_over(self, step: int, stage: Stage) -> None:
        """The engines have nobody's weights, or those of a run that was cut off: give them ours."""
        self.weight_sync.sync_weights(stage.local(step))
        self.experience.weights_synced(stage.local(step))
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
