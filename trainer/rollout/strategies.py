"""What becomes of an episode that failed: pure decisions by failure class and configured strategy.

Infrastructure (sandbox, capacity, timeout, engine) is tried again in a fresh instance; a broken task is
dropped with its group; the policy's own doing counts as an unsolved episode; a wrong request ends the run,
since it would be wrong the next time too, unless it is about an instance that went away.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING

from local_processes.waiting import exponential_wait_s
from sandbox_contract.problems import ErrorCode, FailureClass
from trainer.config.rollout import FailFast, MinimumGroup

if TYPE_CHECKING:
    from trainer.config.rollout import StrategyConfig
    from trainer.types import FailureNote


_INSTANCE_WENT_AWAY = frozenset(
    {
        ErrorCode.DUPLICATE_INSTANCE,
        ErrorCode.IDEMPOTENCY_CONFLICT,
        ErrorCode.INSTANCE_BUSY,
        ErrorCode.INSTANCE_EXPIRED,
        ErrorCode.INSTANCE_FINISHED,
        ErrorCode.INSTANCE_RELEASED,
        ErrorCode.STEP_INDEX_MISMATCH,
        ErrorCode.UNKNOWN_INSTANCE,
    }
)
"""Requests that were right when the instance was still what it had been."""

_LONGEST_PATIENCE_S = 60.0


class Remedy(StrEnum):
    """What to do about a failed attempt."""

    RETRY = "retry"
    """Play it again in a fresh instance."""
    GIVE_UP = "give_up"
    """No attempt is left: the episode has no verdict."""
    TRAIN = "train"
    """The policy's own doing: an unsolved episode."""
    DROP_TASK = "drop_task"
    """The task is broken."""
    RAISE = "raise"
    """The run is set up wrongly."""


def remedy(failure: FailureNote, attempt: int, strategy: StrategyConfig) -> Remedy:
    """What to do after attempt number ``attempt``, counted from 1."""
    if failure.failure_class == FailureClass.POLICY:
        return Remedy.TRAIN
    if failure.failure_class == FailureClass.TASK:
        return Remedy.DROP_TASK
    if failure.failure_class == FailureClass.REQUEST and failure.code not in _INSTANCE_WENT_AWAY:
        return Remedy.RAISE
    return Remedy.RETRY if attempt < _attempts(strategy) else Remedy.GIVE_UP


def patience_s(strategy: StrategyConfig, attempt: int, retry_after_s: float | None) -> float:
    """Seconds to wait after attempt number ``attempt``: doubling, or what the service said."""
    if isinstance(strategy, FailFast):
        return 0.0
    if retry_after_s is not None:
        return min(retry_after_s, _LONGEST_PATIENCE_S)
    return exponential_wait_s(strategy.backoff_s, _LONGEST_PATIENCE_S, attempt)


def needed(strategy: StrategyConfig, size: int) -> int:
    """Episodes of a group that must have a verdict."""
    if isinstance(strategy, MinimumGroup):
        return max(1, math.ceil(strategy.share * size))
    return size


def _attempts(strategy: StrategyConfig) -> int:
    return 1 if isinstance(strategy, FailFast) else strategy.attempts
