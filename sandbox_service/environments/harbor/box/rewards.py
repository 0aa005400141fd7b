"""Read the reward that a task's tests wrote. What is no reward is the task's failure, never a reward of 0.

Standard library only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

KEY = "reward"
"""The key of the reward in ``reward.json``, and of the number in ``reward.txt``."""


class RewardError(Exception):
    """The tests left no usable reward; the message says why."""


def parse_rewards(json_text: str | None, text: str | None) -> dict[str, float]:
    """Return the rewards by key; ``reward.json`` takes precedence over ``reward.txt``.

    Raises RewardError for missing, empty, malformed and non-finite ones.
    """
    if json_text is not None:
        return _from_json(json_text)
    if text is None:
        raise RewardError("the tests wrote neither /logs/verifier/reward.json nor reward.txt")
    try:
        return {KEY: _finite(float(text.strip()), "reward.txt")}
    except ValueError:
        raise RewardError(f"reward.txt holds no number: {text.strip()[:80]!r}") from None


def _from_json(text: str) -> dict[str, float]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise RewardError("reward.json is not JSON") from None
    if not isinstance(value, dict) or not value:
        raise RewardError("reward.json is no object with at least one number")
    for key, number in value.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise RewardError(f"reward.json: {key!r} is no number")
    return {key: _finite(number, f"reward.json: {key!r}") for key, number in value.items()}


def _finite(number: float, where: str) -> float:
    try:
        number = float(number)
    except OverflowError:
        raise RewardError(f"{where} is an integer beyond all floats") from None
    if not math.isfinite(number):
        raise RewardError(f"{where} is {number}")
    return number


def score_of(rewards: Mapping[str, float]) -> float:
    """Return the one number of a task's rewards: that of ``reward``, or the only one. Raises RewardError."""
    if KEY in rewards:
        return rewards[KEY]
    if len(rewards) == 1:
        return next(iter(rewards.values()))
    raise RewardError(f"several rewards, and none is named {KEY!r}: {', '.join(sorted(rewards))}")


def check_range(rewards: Mapping[str, float], least: float, most: float) -> None:
    """Raise RewardError if the rewards have a score outside of the range; other keys may be any numbers."""
    score = rewards.get(KEY, next(iter(rewards.values()))) if KEY in rewards or len(rewards) == 1 else least
    if not least <= score <= most:
        raise RewardError(f"the reward is {score:g}, outside of {least:g} to {most:g}")


def falls_short(rewards: Mapping[str, float], least: Mapping[str, float]) -> bool:
    """Return whether a reward that a step must reach is lower, or missing."""
    return any(rewards.get(key, -math.inf) < threshold for key, threshold in least.items())


def combine(steps: Sequence[Mapping[str, float]], strategy: str) -> dict[str, float]:
    """Return the rewards of a task from those of its steps: the last ones, or the mean of each key."""
    if strategy == "final":
        return dict(steps[-1])
    keys = sorted({key for step in steps for key in step})
    return {key: sum(step.get(key, 0.0) for step in steps) / len(steps) for key in keys}
