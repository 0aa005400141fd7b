"""Rows to train on, written down by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainer.types import Batch, Objective, Sample


def sample(
    trajectory: str,
    turns: Sequence[int],
    rewards: Sequence[float],
    *,
    segment: int = 0,
    group: int = 0,
    weight: float = 1.0,
    truncated: bool = False,
    old: Sequence[float] | None = None,
    ref: Sequence[float] | None = None,
    sampling: Sequence[float] | None = None,
    values: Sequence[float] | None = None,
) -> Sample:
    """A sample whose token t is sampled in turn ``turns[t]``, or not sampled where that is -1."""
    places = np.array(turns, dtype=np.int32)
    mask = places >= 0

    def floats(given: Sequence[float] | None) -> np.ndarray | None:
        return None if given is None else np.array(given, dtype=np.float32)

    return Sample(
        id=trajectory if segment == 0 else f"{trajectory}#{segment}",
        trajectory_id=trajectory,
        group=group,
        token_ids_T=np.arange(len(turns), dtype=np.int32),
        mask_T=mask,
        logprobs_T=floats(sampling if sampling is not None else np.where(mask, -1.0, 0.0)),
        rewards_T=floats(rewards),
        turns_T=places,
        versions_T=np.where(mask, 0, -1).astype(np.int32),
        weight=weight,
        truncated=truncated,
        old_logprobs_T=floats(old),
        ref_logprobs_T=floats(ref),
        values_T=floats(values),
    )


def outcomes(*rewards: float, group: int = 0, first: int = 0) -> tuple[Sample, ...]:
    """One-turn trajectories of a group: a prompt token, two sampled tokens, the outcome at the last."""
    return tuple(
        sample(f"{group}.{first + index}", [-1, 0, 0], [0, 0, reward], group=group)
        for index, reward in enumerate(rewards)
    )


def batch(*samples: Sample, objective: Objective = Objective.POLICY) -> Batch:
    """They make a batch of step 0."""
    return Batch(step=0, objective=objective, samples=samples)
