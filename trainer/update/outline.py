"""A batch as it travels to a rank: of all samples what credit and the division of work need, and of the
rank's own samples their tokens.

Masks, turns, versions and rewards are the same over long stretches, and travel as those. Tokens and the
engine's log-probabilities are most of a batch, and go to the ranks that pass them through the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from trainer.types import Batch, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from trainer.types import FloatT, IntT, Objective

__all__ = ["Outline", "RowTokens", "filled", "is_filled", "outlined", "row_tokens"]

_RUNS = ("mask_T", "rewards_T", "turns_T", "versions_T")

RowTokens: TypeAlias = "Mapping[int, tuple[IntT, FloatT]]"
"""Token ids, and log-probabilities of those in the mask, by the sample's place in its batch."""


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """An array as stretches of one value."""

    starts: NDArray[np.int32]
    values: NDArray[Any]

    @classmethod
    def of(cls, array: NDArray[Any]) -> _Runs:
        changes = np.flatnonzero(array[1:] != array[:-1]) + 1
        starts = np.concatenate([[0], changes]).astype(np.int32)[: len(array)]
        return cls(starts, array[starts])

    def array(self, length: int) -> NDArray[Any]:
        """The array again."""
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
    runs: Mapping[str, _Runs]

    @classmethod
    def of(cls, sample: Sample) -> _SampleOutline:
        return cls(
            length=len(sample),
            id=sample.id,
            trajectory_id=sample.trajectory_id,
            group=sample.group,
            weight=sample.weight,
            last=sample.last,
            truncated=sample.truncated,
            runs={name: _Runs.of(getattr(sample, name)) for name in _RUNS},
        )

    def sample(self) -> Sample:
        return Sample(
            id=self.id,
            trajectory_id=self.trajectory_id,
            group=self.group,
            token_ids_T=np.broadcast_to(_NO_TOKEN, self.length),
            logprobs_T=np.broadcast_to(_NO_LOGPROB, self.length),
            weight=self.weight,
            last=self.last,
            truncated=self.truncated,
            **{name: runs.array(self.length) for name, runs in self.runs.items()},
        )


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """A batch without tokens."""

    step: int
    objective: Objective
    facts: dict[str, float]
    samples: tuple[_SampleOutline, ...]

    def batch(self) -> Batch:
        """The batch, whose samples have no tokens yet: they would be refused by any model."""
        return Batch(self.step, self.objective, tuple(each.sample() for each in self.samples), self.facts)


def outlined(batch: Batch) -> Outline:
    """What every rank gets of a batch that has not been annotated."""
    return Outline(
        batch.step, batch.objective, batch.facts, tuple(_SampleOutline.of(each) for each in batch.samples)
    )


def row_tokens(batch: Batch, places: Iterable[int]) -> RowTokens:
    """The tokens of some samples of a batch."""
    chosen = ((place, batch.samples[place]) for place in places)
    return {place: (sample.token_ids_T, sample.logprobs_T[sample.mask_T]) for place, sample in chosen}


def filled(batch: Batch, tokens: RowTokens) -> Batch:
    """The batch with the tokens of some samples."""
    samples = list(batch.samples)
    for place, (token_ids_T, logprobs_K) in tokens.items():
        sample = samples[place]
        logprobs_T = np.zeros(len(sample), dtype=np.float32)
        logprobs_T[sample.mask_T] = logprobs_K
        samples[place] = replace(sample, token_ids_T=token_ids_T, logprobs_T=logprobs_T)
    return replace(batch, samples=tuple(samples))


def is_filled(sample: Sample) -> bool:
    """Whether a sample's tokens are here."""
    return len(sample) == 0 or bool(sample.token_ids_T[0] != _NO_TOKEN)


_NO_TOKEN = np.int32(-1)
_NO_LOGPROB = np.float32(np.nan)
