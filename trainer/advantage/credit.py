"""Assign credit: fill in the advantages (and the critic's targets) of a batch.

Pure, and the same on every rank. Trajectories of weight 0 are in no baseline and get no advantage. With
``overlong = "mask"``, truncated ones stay in their group's baseline, since they have a score, and get weight
0 (overlong filtering, Yu et al. 2025, https://arxiv.org/abs/2503.14476).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trainer.types import Objective

from .algorithms import ALGORITHMS, Credit
from .chains import Array, Chain, chains, rows
from .constraints import constrained, mean_costs
from .distillation import distilled
from .kl_penalty import penalised
from .sources import normalised_by_source

if TYPE_CHECKING:
    from trainer.config.algorithm import AlgorithmConfig
    from trainer.types import Batch, FloatT, Sample


def credit(
    batch: Batch,
    config: AlgorithmConfig,
    kl_coefficient: float = 0.0,
    multipliers: Mapping[str, float] | None = None,
) -> Batch:
    """Return the batch with advantages, and returns where there is a critic.

    SFT batches get advantage 1 on every token of the mask. Adds the metrics ``advantage/std``, and where
    there is a critic or a teacher ``value/explained`` and ``distillation/...``.

    Args:
        batch: with the learner's annotations, as far as the algorithm needs them.
        config: the algorithm.
        kl_coefficient: used when ``config.kl.place`` is ``reward``.
        multipliers: of the costs that ``config.constraints`` name.

    Raises ValueError when a required annotation is missing, RunEnded when a teacher's is not a number.
    """
    samples = batch.samples
    if batch.objective is Objective.SFT:
        return replace(
            batch,
            samples=tuple(replace(each, advantages_T=each.mask_T.astype(np.float32)) for each in samples),
        )
    in_reward = config.kl.place == "reward"
    rewards_N = [
        penalised(sample, config.kl.estimator, kl_coefficient) if in_reward else sample.rewards_T
        for sample in samples
    ]
    costs: dict[str, float] = {}
    if config.constraints:
        given = multipliers or {each.cost: each.initial for each in config.constraints}
        rewards_N = [constrained(*each, given) for each in zip(samples, rewards_N, strict=True)]
        means = mean_costs(samples, config.constraints, batch.replayed)
        costs = {f"cost/{name}": mean for name, mean in means.items()}
    episodes = chains(samples, rewards_N, skip_truncated=config.overlong == "mask")
    credits_N = ALGORITHMS[type(config.advantage)](episodes, config.advantage)
    if config.by_source != "none":
        credits_N = normalised_by_source(samples, episodes, credits_N, config.by_source)
    distillation: dict[str, float] = {}
    if config.distillation is not None:
        credits_N, distillation = distilled(samples, episodes, credits_N, config.distillation)
    metrics = {**batch.metrics, **_metrics(episodes, credits_N), **distillation, **costs}
    return replace(batch, samples=_filled(samples, episodes, credits_N), metrics=metrics)


def _filled(
    samples: Sequence[Sample], episodes: Sequence[Chain], credits_N: Sequence[Credit]
) -> tuple[Sample, ...]:
    filled = list(samples)
    for chain, mine in zip(episodes, credits_N, strict=True):
        kept = mine.advantages_A if chain.trained else np.zeros_like(mine.advantages_A)
        advantages = rows(chain, kept, samples)
        returns: dict[int, FloatT] = {} if mine.returns_A is None else rows(chain, mine.returns_A, samples)
        for index in chain.samples:
            filled[index] = replace(
                samples[index],
                advantages_T=advantages[index],
                returns_T=returns.get(index),
                weight=samples[index].weight if chain.trained else 0.0,
            )
    return tuple(filled)


def _metrics(episodes: Sequence[Chain], credits_N: Sequence[Credit]) -> dict[str, float]:
    pairs = [(chain, mine) for chain, mine in zip(episodes, credits_N, strict=True) if chain.trained]
    metrics = {"advantage/std": _deviation([mine.advantages_A for _, mine in pairs])}
    critic = [(mine.returns_A, chain.values_A) for chain, mine in pairs]
    errors = [goal - value for goal, value in critic if goal is not None and value is not None]
    if errors:
        spread = _deviation([goal for goal, _ in critic if goal is not None])
        metrics["value/explained"] = 1.0 - (_deviation(errors) / spread) ** 2 if spread > 0 else 0.0
    return metrics


def _deviation(arrays: Sequence[Array]) -> float:
    joined = np.concatenate(arrays) if arrays else np.zeros(0)
    return float(joined.std()) if len(joined) else 0.0
