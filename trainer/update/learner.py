"""The learner: the model, its optimizer and its reference model, on one rank of a worker group.

Methods that touch the model are collective: all ranks call them with the same arguments and get the same
result. Every rank has the metadata of all samples of a batch, and needs the tokens of its own share only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from trainer.models.folders import public_name

from .checkpoint import (
    TensorWriter,
    read_note,
    read_random,
    read_tensors,
    write_note,
    write_random,
)
from .export import write_model
from .flops import Meter
from .mesh import Mesh
from .model import make_model
from .objective import mismatch_metrics, reported
from .packing import Row
from .partition import RankShare, minibatches
from .reward_export import write_reward_model
from .row_table import RowTable
from .scoring import Scorer
from .sharding import Parallel
from .stage_state import StageState
from .teacher import Teacher
from .training import Sums, Updater
from .training_tensors import TrainingTensors
from .weights import merged_weights, write_adapter

if TYPE_CHECKING:
    from concurrent.futures import Future

    from torch import Tensor

    from trainer.config import LearnerSettings, OptimizerConfig
    from trainer.types import Batch, FloatT, Sample

    from .optimizer import Optimizer
    from .reference import Reference

_CHANGE_METRICS = frozenset({"policy/kl", "policy/clip_share"})
"""Metrics that compare the policy with the one before the step."""


class Learner:
    """A causal language model that learns from batches."""

    def __init__(
        self,
        model_folder: Path,
        settings: LearnerSettings,
        device: torch.device | str,
        rank: int = 0,
        world: int = 1,
        teacher: Path | None = None,
    ) -> None:
        """Load the model, and the one in the teacher's folder if the algorithm has such a teacher.

        With ``world`` > 1, a process group of that size must exist. Raises ConfigError.
        """
        learner = settings.learner
        self.settings = settings
        self.rank = rank
        self.device = torch.device(device)
        self._folder = model_folder
        mesh = Mesh.of(learner, rank, world)
        self.model = Parallel(make_model(model_folder, settings, self.device), learner, self.device, mesh)
        """The model as it is placed on the ranks."""
        self._meter = Meter(self.model.core, self.device, world, half=self.model.half)
        budget, layout = learner.micro_batch_tokens, learner.layout
        self._share = RankShare(mesh, budget, layout)
        self._scorer = Scorer(self.model, budget, layout)
        self._temperature = settings.temperature or 1.0  # 0 rows: evaluation only
        self._stage: StageState | None = None
        self._trained: tuple[Sample, ...] = ()
        self._teacher = self._load_teacher(teacher, mesh)
        whole = self._teacher if settings.algorithm.distils_exactly else None
        self._updater = Updater(self.model, budget, layout, settings.algorithm, self._temperature, whole)
        self._writer: TensorWriter | None = None

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer of the current stage; None before ``begin_stage``."""
        return self._stage.optimizer if self._stage is not None else None

    @property
    def reference(self) -> Reference | None:
        """Copy of the weights at the start of the stage, if the stage compares with it."""
        return self._stage.reference if self._stage is not None else None

    @property
    def kl_coefficient(self) -> float:
        """Weight of the KL penalty to the reference model, as adapted so far."""
        return self._begun().kl.value

    @property
    def multipliers(self) -> Mapping[str, float]:
        """Lagrange multipliers of the costs that the algorithm's constraints name, as adapted so far."""
        return self._begun().multipliers

    def begin_stage(
        self, optimizer: OptimizerConfig, steps: int, *, reference: bool | None = None, critic: bool = True
    ) -> None:
        """Begin a stage: fresh optimizer and a schedule over ``steps`` steps.

        The model is copied as reference if ``reference`` is true, by default if the algorithm needs one.
        ``critic``: the head is the algorithm's critic, which may have a learning rate of its own.
        """
        needed = self.settings.algorithm.needs_reference if reference is None else reference
        self._end_stage()
        self._stage = StageState(
            self.model.core, self.settings, optimizer, steps, reference=needed, critic=critic
        )

    def continue_stage(self, steps: int) -> None:
        """Go on with a restored stage, which has ``steps`` steps now: a resumed run may be given more."""
        self._begun().optimizer.steps = steps

    def restore_policy(self) -> None:
        """Put the model back as it was before the stage that trained a reward model, with a fresh head."""
        head = self.model.core.value_head
        if self.reference is None or head is None:
            raise RuntimeError("no stage has trained a reward model")
        self.reference.restore()
        with torch.no_grad():
            for parameter in head.parameters():
                parameter.zero_()

    def to_annotate(self, batch: Batch) -> frozenset[int]:
        """Return indices of the samples whose tokens ``annotate`` needs on this rank."""
        asks = self._scores_policy(batch) or self.reference is not None
        asks = asks and batch.objective.needs_annotation
        return self._share.to_score(batch) if asks else frozenset()

    def to_learn(self, batch: Batch) -> frozenset[int]:
        """Return indices of the samples whose tokens ``update`` needs on this rank, for a batch with
        weights.
        """
        rows = sum(sample.weight > 0 and bool(sample.mask_T.any()) for sample in batch.samples)
        return self._share.to_learn(batch, self._minibatches(batch, rows))

    def annotate(self, batch: Batch) -> Batch:
        """Return the batch with log-probabilities of the model, the reference and the teacher, and values of
        the critic.

        When a batch gets a single update and nothing else needs them, the model's log-probabilities are left
        to the update, whose first forward pass computes the same. With several updates they are left out
        where nothing that is learned depends on them.
        """
        if not batch.objective.needs_annotation:
            return batch
        rows = [Row(sample.token_ids_T, sample.mask_T, sample.output) for sample in batch.samples]
        samples = list(batch.samples)
        temperature = self._temperature if batch.objective.plays_episodes else 1.0
        if self._scores_policy(batch):
            scores = self._scorer.score(rows, temperature)
            samples = [
                replace(sample, old_logprobs_T=logprobs_T)
                for sample, logprobs_T in zip(samples, scores.logprobs, strict=True)
            ]
            if scores.values is not None:
                samples = [
                    replace(sample, values_T=values_T)
                    for sample, values_T in zip(samples, scores.values, strict=True)
                ]
        if self.reference is not None and batch.objective.has_reference:
            with self.reference.in_place():
                found = self._scorer.score(rows, temperature).logprobs
            samples = [
                replace(sample, ref_logprobs_T=logprobs_T)
                for sample, logprobs_T in zip(samples, found, strict=True)
            ]
        scoring = self._teacher if self._updater.teacher is None else None
        if scoring is not None and batch.objective.plays_episodes:
            samples = [
                replace(sample, teacher_logprobs_T=logprobs_T)
                for sample, logprobs_T in zip(samples, scoring.score(rows), strict=True)
            ]
        return replace(batch, samples=tuple(samples))

    def update(self, batch: Batch, kl_coefficient: float | None = None) -> dict[str, float]:
        """Learn from a batch with advantages. Returns metrics, the same on every rank.

        Without the log-probabilities before several updates, those of the first minibatch's pass are compared
        with the engine's, and metrics of the policy's change are left out.
        """
        began = time.monotonic()
        stage = self._begun()
        # Dropout's masks: a repeated step has the same ones, also one that no checkpoint has a state for.
        torch.manual_seed(_torch_seed(self.settings.seed, batch.step, self.rank))
        optimizer = stage.optimizer
        data = TrainingTensors.of(batch)
        sampled = batch.objective.plays_episodes
        coefficient = stage.kl.value if kl_coefficient is None else kl_coefficient
        seen = RowTable(data.rows, 3, self.device) if sampled else None
        compared = self._scores_policy(batch) or self._asks_once
        once = min(self.settings.learner.minibatches, len(data.rows)) if compared else 1
        sums, norms, first = Sums(), [], set[int]()
        for place, minibatch in enumerate(self._minibatches(batch, len(data.rows))):
            table = seen if place < once else None
            if table is not None:
                first.update(minibatch)
            norms.append(self._updater.update(data, minibatch, optimizer, sums, coefficient, table))
        rate = optimizer.rate
        optimizer.done += 1
        losses, totals = sums.over_ranks(self.model.world)
        metrics = reported(losses, {"tokens": 0.0, **totals}, len(norms))
        if not compared:
            metrics = {name: value for name, value in metrics.items() if name not in _CHANGE_METRICS}
        if seen is not None:
            samples = self._seen(batch, seen)
            self._trained = tuple(each for row, each in enumerate(samples) if row in first)
            metrics |= mismatch_metrics(self._trained, self.settings.algorithm.mismatch)
            metrics |= stage.adapt(self._trained, batch.metrics)
        finite = [norm for norm in norms if np.isfinite(norm)]
        seconds = time.monotonic() - began
        passes = self.settings.learner.epochs if sampled else 1
        return {
            **self._meter.metrics(data.rows, passes, seconds),
            **metrics,
            "policy/grad_norm": float(np.mean(finite)) if finite else 0.0,
            "policy/skipped": float(len(norms) - len(finite)),
            "policy/updates": float(len(finite)),
            "policy/lr": rate,
            "policy/kl_coefficient": stage.kl.value,
            "time/update": seconds,
        }

    def add_token_statistics(self, batch: Batch) -> Batch:
        """Return the batch of the last update with the log-probabilities and entropies of its trained tokens.

        They are those that the update's first pass over a sample found, the same on every rank. Without the
        log-probabilities before several updates, samples after the first minibatch have none. A second call
        finds nothing: the samples of a batch may take much memory.
        """
        trained = {sample.id: sample for sample in self._trained}
        self._trained = ()
        return replace(batch, samples=tuple(trained.get(sample.id, sample) for sample in batch.samples))

    def probe(self, sequences: Sequence[tuple[int, ...]]) -> list[FloatT]:
        """Return the log-probability of each token given its predecessors, 0 for the first; collective.

        The temperature is 1, regardless of the sampling temperature.
        """
        rows = [
            Row(np.asarray(sequence, dtype=np.int32), np.arange(len(sequence)) > 0) for sequence in sequences
        ]
        return self._scorer.score(rows).logprobs

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield all weights, unsharded and one at a time, under Hugging Face's names; collective.

        Adapters are merged; a tied output layer also comes under its own name.
        """
        yield from merged_weights(self.model.core)

    def adapter(self, folder: Path) -> None:
        """Write the LoRA adapter in PEFT's format; collective. Raises ValueError without one."""
        lora = self.settings.learner.lora
        if lora is None:
            raise ValueError("this run has no adapter: it trains all weights (learner.lora is not set)")
        base = public_name(self._folder)
        write_adapter(self.model.core, lora, base, folder, write=self.rank == 0)

    def export(self, folder: Path) -> None:
        """Write the model, with adapters merged, and its tokenizer in Hugging Face's format; collective."""
        write_model(self.model.core, folder, write=self.rank == 0)

    def export_reward_model(self, folder: Path, dimensions: Sequence[str] | None = None) -> float:
        """Write the model with its head as a reward model in Hugging Face's format; collective.

        ``dimensions`` are those of a process reward model. Returns the head's bias if scores of the folder
        lack it.
        """
        return write_reward_model(self.model.core, folder, dimensions, write=self.rank == 0)

    def save(self, folder: Path) -> Future[object]:
        """Start saving everything that the next update depends on, each rank its part; collective.

        Learning may continue at once; the checkpoint is complete when the result is there.
        """
        stage = self._begun()
        folder.mkdir(parents=True, exist_ok=True)
        tensors = stage.tensors()
        write_random(folder, self.rank, self.device)
        if self.rank == 0:
            write_note(folder, stage.note(tensors, self.model.world))
        if self._writer is None:
            self._writer = TensorWriter()
        return self._writer.write(folder, tensors)

    def load_checkpoint(self, folder: Path) -> None:
        """Resume from a folder, regardless of how many ranks wrote it; collective. Raises CheckpointError."""
        note = read_note(folder)
        self._end_stage()
        stage = StageState.of_note(self.model.core, self.settings, note)
        tensors = stage.tensors()
        read_tensors(folder, tensors, note.shapes)
        stage.load_moments(tensors, note.updates)
        read_random(folder, self.rank, self.device)
        self._stage = stage

    def _scores_policy(self, batch: Batch) -> bool:
        """Return whether log-probabilities of the model are needed before the first update."""
        if not batch.objective.plays_episodes:
            return True
        return self.settings.algorithm.compares_policies and not self._asks_once

    @property
    def _asks_once(self) -> bool:
        """Return whether the update's first pass can supply the old log-probabilities."""
        learner, algorithm = self.settings.learner, self.settings.algorithm
        updates = learner.minibatches * learner.epochs
        credited = algorithm.kl.place == "reward" or (
            algorithm.distillation is not None and not algorithm.distils_exactly
        )
        return updates == 1 and not credited and not algorithm.needs_values

    def _load_teacher(self, folder: Path | None, mesh: Mesh) -> Teacher | None:
        """Load the teacher that the algorithm wants on the workers; None where it wants none."""
        wanted = self.settings.algorithm.model_teacher
        if wanted is None:
            return None
        if folder is None:
            raise ValueError("the algorithm has a teacher, and its folder was not given")
        return Teacher(folder, self.settings, self.device, mesh, wanted.temperature)

    def _end_stage(self) -> None:
        """Free the state and gradients of a stage: there is no memory for those of two."""
        self._stage = None
        self.model.clear_gradients()

    def _begun(self) -> StageState:
        if self._stage is None:
            raise RuntimeError("begin_stage() has to be called before this")
        return self._stage

    def _minibatches(self, batch: Batch, rows: int) -> Iterator[list[int]]:
        """Yield the rows of each update; repeating a step gives the same rows."""
        if not batch.objective.plays_episodes:
            yield from minibatches(rows, 1, (self.settings.seed, batch.step))
            return
        for epoch in range(self.settings.learner.epochs):
            seed = (self.settings.seed, batch.step, epoch)
            yield from minibatches(rows, self.settings.learner.minibatches, seed)

    def _seen(self, batch: Batch, seen: RowTable) -> tuple[Sample, ...]:
        """Return the trained samples, with log-probabilities of the model before the update and of the
        engine, and the model's entropy.
        """
        samples = [sample for sample in batch.samples if sample.weight > 0 and sample.mask_T.any()]
        return tuple(
            replace(
                sample,
                old_logprobs_T=first_T if sample.old_logprobs_T is None else sample.old_logprobs_T,
                logprobs_T=sampling_T,
                entropy_T=entropy_T,
            )
            for sample, first_T, sampling_T, entropy_T in zip(
                samples, *seen.read(self.model.world), strict=True
            )
        )


def _torch_seed(*parts: int) -> int:
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0])
