"""Compare learned and true reward step by step, and raise an alarm when they part."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from trainer.advantage.step_estimation import traced_back
from trainer.config.learned_reward import ProcessRewardConfig
from trainer.errors import RunEnded
from trainer.reward.learned import PROCESS
from trainer.reward_models.guards import AgreementAlarm, ComparedStep, rank_correlation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainer.config import RewardConfig
    from trainer.config.learned_reward import LearnedRewardConfig, RefreshConfig
    from trainer.types import Trajectory

    from .assemble import ScoredGroup

logger = logging.getLogger(__name__)


def fresh_quality(judged: Sequence[Trajectory], refresh: RefreshConfig) -> dict[str, float]:
    """Return how well the probabilities that steps were rewarded with foretold their labels.

    The episodes are fresh: no model was trained on them before it scored them.
    """
    known = [each for each in judged if each.success is not None]
    chances = [
        turn.terms.get(f"{PROCESS}{refresh.dimension}") for each in known for turn in each.played_turns
    ]
    labels = [
        label
        for each in known
        for label in traced_back(float(bool(each.success)), len(each.turns), refresh.discount)
    ]
    scored = [(chance, label) for chance, label in zip(chances, labels, strict=True) if chance is not None]
    if not scored:
        return {}
    chances_K, labels_K = np.array(scored).T
    sided_K = labels_K != 0.5
    right_K = (chances_K > 0.5) == (labels_K > 0.5)
    metrics = {"reward/process_brier": float(np.square(chances_K - labels_K).mean())}
    return metrics | ({"reward/process_accuracy": float(right_K[sided_K].mean())} if sided_K.any() else {})


class RewardAgreement:
    """The alarms of a run's reward models. After a restart their windows begin anew."""

    def __init__(self, config: RewardConfig) -> None:
        given = {"learned": config.learned, "process": config.process}
        self._parts: dict[str, tuple[LearnedRewardConfig, AgreementAlarm]] = {
            name: (each, AgreementAlarm(each.alarm.window, each.alarm.least_correlation))
            for name, each in given.items()
            if each is not None
        }
        self._ended: str | None = None
        """The error of the alarm that has ended the run, which every rank that asks for the step gets."""

    def compare(self, step: int, groups: Sequence[ScoredGroup]) -> dict[str, float]:
        """Return the metrics of a step's fresh groups.

        Raises RunEnded for an alarm that is configured to end the run, whoever asks for the batch.
        """
        if self._ended is not None:
            raise RunEnded(self._ended)
        judged = [trajectory for group in groups for trajectory in group.judged]
        metrics: dict[str, float] = {}
        for name, (config, alarm) in self._parts.items():
            if not judged:
                continue
            learned = [trajectory.terms.get(name, 0.0) for trajectory in judged]
            true = [trajectory.score or 0.0 for trajectory in judged]
            if isinstance(config, ProcessRewardConfig) and config.refresh is not None:
                metrics |= fresh_quality(judged, config.refresh)
            found = rank_correlation(learned, true)
            why = alarm.add(ComparedStep(float(np.mean(learned)), float(np.mean(true)), found))
            if found is not None:
                metrics[f"reward/{name}_correlation"] = found
            metrics[f"reward/{name}_alarm"] = float(why is not None)
            if why is not None:
                logger.warning("step %d: reward.%s may be exploited: %s", step, name, why)
                if config.alarm.action == "stop":
                    self._ended = (
                        f"the run ends at step {step} because reward.{name}.alarm.action is stop: {why}"
                    )
                    raise RunEnded(self._ended)
        return metrics
