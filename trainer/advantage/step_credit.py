"""Assign credit by the loss of a process reward model: each step's outputs get its negative derivatives.

The outputs are the head's values at the tokens of each sample's mask, one token a step with a label; the
sample names the dimension, and its rewards there are the labels. Samples of weight 0 are held out: they are
measured and not trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .calibration import step_quality
from .step_estimation import step_estimation

if TYPE_CHECKING:
    from trainer.types import Batch, Sample

    from .chains import Array


def step_credit(batch: Batch, dimensions: Sequence[str]) -> Batch:
    """Return the batch with advantages, and with the metrics of its labelled steps.

    Adds ``loss/process_reward_model`` and, for the steps that are trained on and, as ``steps/held_out_...``,
    for the others: accuracy, calibration_error and brier, over all dimensions and, with several, for each as
    ``steps/.../DIMENSION``.

    Args:
        batch: with the head's values.
        dimensions: names of the head's outputs.

    Raises ValueError when values are missing.
    """
    outputs = [_outputs(sample) for sample in batch.samples]
    labels = [sample.rewards_T[sample.mask_T].astype(np.float64) for sample in batch.samples]
    trained = [place for place, sample in enumerate(batch.samples) if sample.weight > 0]
    held_out = [place for place, sample in enumerate(batch.samples) if sample.weight == 0]
    found = step_estimation(_joined(outputs, trained), _joined(labels, trained))
    slopes = iter(np.split(found.by_outputs_KD, np.cumsum([len(outputs[place]) for place in trained])[:-1]))
    samples = list(batch.samples)
    for place, sample in enumerate(samples):
        advantages_T = np.zeros(len(sample), dtype=np.float32)
        if sample.weight > 0:
            advantages_T[sample.mask_T] = -next(slopes)
        samples[place] = replace(sample, advantages_T=advantages_T)
    facts = {**batch.facts, "loss/process_reward_model": found.loss}
    for prefix, places in (("steps/", trained), ("steps/held_out_", held_out)):
        facts |= _quality(prefix, "", _joined(outputs, places), _joined(labels, places))
        for number, name in enumerate(dimensions if len(dimensions) > 1 else ()):
            of_dimension = [place for place in places if samples[place].output == number]
            figures = _joined(outputs, of_dimension), _joined(labels, of_dimension)
            facts |= _quality(prefix, f"/{name}", *figures)
    return replace(batch, samples=tuple(samples), facts=facts)


def _quality(prefix: str, suffix: str, outputs_K: Array, labels_K: Array) -> dict[str, float]:
    found = step_quality(outputs_K, labels_K)
    if found is None:
        return {}
    return {
        f"{prefix}accuracy{suffix}": found.accuracy,
        f"{prefix}calibration_error{suffix}": found.calibration_error,
        f"{prefix}brier{suffix}": found.brier,
    }


def _outputs(sample: Sample) -> Array:
    if sample.values_T is None:
        raise ValueError(f"sample {sample.id} has no scores; annotate the batch first")
    return sample.values_T[sample.mask_T].astype(np.float64)


def _joined(arrays: Sequence[Array], places: Sequence[int]) -> Array:
    return np.concatenate([np.zeros(0), *(arrays[place] for place in places)])
