"""The interface of what gives an episode its outcome."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from trainer.errors import RewardFailed
from trainer.reward.bounds import GREATEST

if TYPE_CHECKING:
    from trainer.types import Trajectory

_BEYOND = f"beyond {GREATEST:g} in magnitude, the most that can be trained on"


class OutcomeSource(Protocol):
    """Gives a played and graded episode its outcome."""

    async def find_outcome(self, trajectory: Trajectory) -> float:
        """Return a finite number, of at most ``GREATEST`` in magnitude.

        Raises RewardFailed for this episode, and any other TrainerError to end the run.
        """
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


def finite(value: object, origin: str) -> float:
    """Return a reward as a float. Raises RewardFailed for what is no number within ``GREATEST``."""
    try:
        number = _number(value)
    except OverflowError:
        raise RewardFailed(f"{origin} returned a number {_BEYOND}") from None
    if number is None:
        raise RewardFailed(f"{origin} returned {type(value).__name__}, not a number")
    if not math.isfinite(number):
        raise RewardFailed(f"{origin} returned {number}, which is no finite number")
    if abs(number) > GREATEST:
        raise RewardFailed(f"{origin} returned {number:g}, a number {_BEYOND}")
    return number


def _number(value: object) -> float | None:
    """Return a number of Python, numpy or torch; None for anything else. Raises OverflowError."""
    if isinstance(value, bool | int | float):
        return float(value)
    item = getattr(value, "item", None)
    try:
        return float(item()) if callable(item) else None
    except (TypeError, ValueError, RuntimeError):
        return None
