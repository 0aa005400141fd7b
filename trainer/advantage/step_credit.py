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
    for the others: accuracy, calibration_error and brier; for the others also by dimension.

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
    metrics = {**batch.metrics, "loss/process_reward_model": found.loss}
    metrics |= _trained_quality(_joined(outputs, trained), _joined(labels, trained))
    metrics |= _held_out_quality(_joined(outputs, held_out), _joined(labels, held_out))
    for number, name in enumerate(dimensions):
        places = [place for place in held_out if samples[place].output == number]
        quality = step_quality(_joined(outputs, places), _joined(labels, places))
        if quality is not None:
            metrics[f"steps/held_out_accuracy/{name}"] = quality.accuracy
            metrics[f"steps/held_out_calibration_error/{name}"] = quality.calibration_error
    return replace(batch, samples=tuple(samples), metrics=metrics)


def _trained_quality(outputs_K: Array, labels_K: Array) -> dict[str, float]:
    found = step_quality(outputs_K, labels_K)
    if found is None:
        return {}
    return {
        "steps/accuracy": found.accuracy,
        "steps/calibration_error": found.calibration_error,
        "steps/brier": found.brier,
    }


def _held_out_quality(outputs_K: Array, labels_K: Array) -> dict[str, float]:
    found = step_quality(outputs_K, labels_K)
    if found is None:
        return {}
    return {
        "steps/held_out_accuracy": found.accuracy,
        "steps/held_out_calibration_error": found.calibration_error,
        "steps/held_out_brier": found.brier,
    }


def _outputs(sample: Sample) -> Array:
    if sample.values_T is None:
        raise ValueError(f"sample {sample.id} has no scores; annotate the batch first")
    return sample.values_T[sample.mask_T].astype(np.float64)


def _joined(arrays: Sequence[Array], places: Sequence[int]) -> Array:
    return np.concatenate([np.zeros(0), *(arrays[place] for place in places)])
