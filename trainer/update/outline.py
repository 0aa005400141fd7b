"""The part of a batch that is sent to every rank; each rank's own tokens are sent separately.

Every rank needs of all samples what credit assignment and the division of work read. Masks, turns, versions
and rewards are constant over long stretches and sent run-length encoded. Tokens and the engine's
log-probabilities are most of a batch, and are sent only to the ranks that pass them through the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from trainer.types import Batch, Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trainer.types import FloatT, IntT, Objective


_RUNS = ("mask_T", "rewards_T", "turns_T", "versions_T")

RowTokens: TypeAlias = "Mapping[int, tuple[IntT, FloatT]]"
"""Token ids, and log-probabilities of those in the mask, by the sample's index in its batch."""


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """An array in run-length encoding."""

    starts: NDArray[np.int32]
    values: NDArray[Any]

    @classmethod
    def of(cls, array: NDArray[Any]) -> _Runs:
        changes = np.flatnonzero(array[1:] != array[:-1]) + 1
        starts = np.concatenate([[0], changes]).astype(np.int32)[: len(array)]
        return cls(starts, array[starts])

    def array(self, length: int) -> NDArray[Any]:
        """Return the decoded array."""
        return np.repeat(self.values, np.diff(np.append(self.starts, length)))


@dataclass(frozen=True, slots=True, eq=False)
class _SampleOutline:
    """A sample without its tokens."""

    length: int
    id: str
    trajectory_id: str
    group: int
    weight: float
    last: bool
    truncated: bool
    source: str
    costs: Mapping[str, _Runs]
    preferred: bool | None
    output: int
    runs: Mapping[str, _Runs]
    teacher_K: FloatT | None
    """The teacher's log-probabilities of the masked tokens, which credit assignment reads on every rank."""

    @classmethod
    def of(cls, sample: Sample) -> _SampleOutline:
        teacher_T = sample.teacher_logprobs_T
        return cls(
            length=len(sample),
            id=sample.id,
            trajectory_id=sample.trajectory_id,
            group=sample.group,
            weight=sample.weight,
            last=sample.last,
            truncated=sample.truncated,
            source=sample.source,
            costs={name: _Runs.of(costs_T) for name, costs_T in sample.costs.items()},
            preferred=sample.preferred,
            output=sample.output,
            runs={name: _Runs.of(getattr(sample, name)) for name in _RUNS},
            teacher_K=None if teacher_T is None else teacher_T[sample.mask_T],
        )

    def sample(self) -> Sample:
        arrays = {name: runs.array(self.length) for name, runs in self.runs.items()}
        teacher_T: FloatT | None = None
        if self.teacher_K is not None:
            teacher_T = np.zeros(self.length, dtype=np.float32)
            teacher_T[arrays["mask_T"]] = self.teacher_K
        return Sample(
            id=self.id,
            trajectory_id=self.trajectory_id,
            group=self.group,
            token_ids_T=np.broadcast_to(_NO_TOKEN, self.length),
            logprobs_T=np.broadcast_to(_NO_LOGPROB, self.length),
            weight=self.weight,
            last=self.last,
            truncated=self.truncated,
            source=self.source,
            costs={name: runs.array(self.length) for name, runs in self.costs.items()},
            teacher_logprobs_T=teacher_T,
            preferred=self.preferred,
            output=self.output,
            **arrays,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """A batch without tokens."""

    step: int
    objective: Objective
    metrics: dict[str, float]
    samples: tuple[_SampleOutline, ...]
    replayed: frozenset[int]

    def batch(self) -> Batch:
        """Return the batch with samples that have no tokens yet and that a model would reject."""
        samples = tuple(each.sample() for each in self.samples)
        return Batch(self.step, self.objective, samples, self.metrics, self.replayed)


def outlined(batch: Batch) -> Outline:
    """Return the outline of a batch that has not been annotated."""
    samples = tuple(_SampleOutline.of(each) for each in batch.samples)
    return Outline(batch.step, batch.objective, batch.metrics, samples, batch.replayed)


def row_tokens(batch: Batch, places: Iterable[int]) -> RowTokens:
    """Return the tokens of some samples of a batch."""
    chosen = ((place, batch.samples[place]) for place in places)
    return {place: (sample.token_ids_T, sample.logprobs_T[sample.mask_T]) for place, sample in chosen}


def filled(batch: Batch, tokens: RowTokens) -> Batch:
    """Return the batch with the tokens of some samples filled in."""
    samples = list(batch.samples)
    for place, (token_ids_T, logprobs_K) in tokens.items():
        sample = samples[place]
        logprobs_T = np.zeros(len(sample), dtype=np.float32)
        logprobs_T[sample.mask_T] = logprobs_K
        samples[place] = replace(sample, token_ids_T=token_ids_T, logprobs_T=logprobs_T)
    return replace(batch, samples=tuple(samples))


def is_filled(sample: Sample) -> bool:
    """Return whether a sample has its tokens."""
    return len(sample) == 0 or bool(sample.token_ids_T[0] != _NO_TOKEN)


_NO_TOKEN = np.int32(-1)
_NO_LOGPROB = np.float32(np.nan)
