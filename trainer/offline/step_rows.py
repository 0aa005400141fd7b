"""Rows of a stage that trains a process reward model: each is read after every step that has a label.

The learner's head is read before each token of a row's mask, so that the mask has the token behind each step;
behind the last one a token is appended, which changes no score, since attention is causal. A row is an
episode, with one sample for each dimension, which names the output of the head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trainer.errors import DataError

from .scored_rows import ScoreBatches, held_out_key, with_held_out

if TYPE_CHECKING:
    from trainer.config import ProcessRewardModelStageConfig
    from trainer.recorded.types import RecordedEpisode
    from trainer.types import Sample


def step_batches(
    stage: ProcessRewardModelStageConfig,
    rows: Sequence[Sequence[Sample]],
    episodes: Sequence[RecordedEpisode],
    seed: int,
    metrics: Mapping[str, float],
) -> ScoreBatches:
    """Return the batches of a stage; episodes of one task are all trained on or all held out.

    Args:
        stage: its settings.
        rows: a tokenized episode each, whose group is its index in ``episodes``.
        episodes: with labelled steps.
        seed: of the order of rows, and of what is held out.
        metrics: those that every batch has.

    Raises DataError where no episode is left to train on, or to measure with.
    """
    labelled = [[*step_samples(row[0], episodes[row[0].group], stage.dimensions)] for row in rows]
    tasks = [held_out_key(episodes[row[0].group]) for row in rows]
    kept = [(row, task) for row, task in zip(labelled, tasks, strict=True) if row]
    if not kept:
        raise DataError(f"stage {stage.name}: no labelled step is left in the rows that fit the context")
    return with_held_out(stage, [row for row, _ in kept], [task for _, task in kept], "tasks", seed, metrics)


def step_samples(sample: Sample, episode: RecordedEpisode, dimensions: Sequence[str]) -> Sequence[Sample]:
    """Return a sample for each dimension in which steps of the episode have labels.

    Turns that the record repeats are left to the record of the earlier part.
    """
    length = len(sample) + 1
    turns_T = np.append(sample.turns_T, np.int32(-1))
    found = []
    for number, name in enumerate(dimensions):
        mask_T = np.zeros(length, dtype=np.bool_)
        rewards_T = np.zeros(length, dtype=np.float32)
        for turn, label in enumerate(episode.step_labels.get(name, ())):
            places = np.flatnonzero(turns_T == turn)
            if label is not None and turn >= episode.repeated_turns and len(places):
                mask_T[places[-1] + 1] = True
                rewards_T[places[-1] + 1] = label
        if mask_T.any():
            found.append(
                replace(
                    sample,
                    id=f"{sample.id}/{name}",
                    output=number,
                    token_ids_T=np.append(sample.token_ids_T, sample.token_ids_T[-1:]),
                    mask_T=mask_T,
                    logprobs_T=np.zeros(length, dtype=np.float32),
                    rewards_T=rewards_T,
                    turns_T=turns_T,
                    versions_T=np.full(length, -1, dtype=np.int32),
                    weight=1.0,
                )
            )
    return found
