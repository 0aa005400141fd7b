"""Settings that are right one by one and together teach nothing: they are refused before a run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .algorithm import AlgorithmConfig
    from .reward import RewardConfig
    from .rollout import RolloutConfig

__all__ = ["nothing_to_learn"]


def nothing_to_learn(rollout: RolloutConfig, algorithm: AlgorithmConfig, reward: RewardConfig) -> str | None:
    """Why no step of reinforcement learning could change the policy towards its reward; None where it can."""
    if rollout.group_size == 1 and algorithm.compares_groups:
        kind = algorithm.advantage.kind
        return (
            f"rollout.group_size=1 leaves algorithm.advantage.kind={kind} nothing to compare an episode "
            "with, so that every advantage is 0; take rollout.group_size=2 or more, or an advantage without "
            "a group's baseline, such as gae or reinforce_pp"
        )
    sampling = rollout.sampling
    if sampling.temperature == 0 or sampling.top_k == 1:
        setting = "temperature=0" if sampling.temperature == 0 else "top_k=1"
        return (
            f"rollout.sampling.{setting} always takes the likeliest token, so that nothing is explored and "
            "the episodes of a group are all the same; take temperature=1 (evaluation.temperature is a "
            "setting of its own)"
        )
    if not (reward.outcome_weight or reward.step_weight or any(reward.terms.model_dump().values())):
        return "every weight of the reward is 0; set reward.outcome_weight, reward.step_weight or a term"
    if reward.least is not None and reward.most is not None and reward.least >= reward.most:
        return "reward.least is not below reward.most, so that every episode has the same reward"
    return None
