"""Reject combinations of settings with which no step could learn anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .algorithm import AlgorithmConfig
    from .reward import RewardConfig
    from .rollout import RolloutConfig


def alone_in_group(rollout: RolloutConfig, algorithm: AlgorithmConfig) -> str | None:
    """Return why all advantages of the task are 0, where an episode is compared with none; else None."""
    if rollout.group_size > 1 or not algorithm.advantage_compares_groups:
        return None
    kind = algorithm.advantage.kind
    return (
        f"rollout.group_size=1 leaves algorithm.advantage.kind={kind} no other episode "
        "to compare with, so that every advantage is 0; use rollout.group_size=2 or "
        "more, or an advantage without a group baseline, such as gae or reinforce_pp"
    )


def nothing_to_learn(rollout: RolloutConfig, algorithm: AlgorithmConfig, reward: RewardConfig) -> str | None:
    """Return why no step of reinforcement learning could improve the policy; None where it can."""
    if algorithm.compares_groups and (alone := alone_in_group(rollout, algorithm)):
        return alone
    sampling = rollout.sampling
    if sampling.temperature == 0 or sampling.top_k == 1:
        setting = "temperature=0" if sampling.temperature == 0 else "top_k=1"
        return (
            f"rollout.sampling.{setting} makes sampling greedy, so that all episodes of a "
            "group are equal; use temperature=1 (evaluation.temperature is a separate "
            "setting)"
        )
    if not algorithm.uses_rewards:
        return None
    learned = any(each is not None and each.weight for each in (reward.learned, reward.process))
    own = reward.outcome_weight or reward.step_weight or any(reward.terms.model_dump().values())
    if not (own or learned):
        return "every weight of the reward is 0; set reward.outcome_weight, reward.step_weight or a term"
    if reward.least is not None and reward.most is not None and reward.least >= reward.most:
        return "reward.least is not below reward.most, so that every episode has the same reward"
    return None
