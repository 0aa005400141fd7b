"""The interface of what gives an episode its outcome."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from trainer.errors import RewardFailed

if TYPE_CHECKING:
    from trainer.types import Trajectory


class OutcomeSource(Protocol):
    """Gives a played and graded episode its outcome."""

    async def find_outcome(self, trajectory: Trajectory) -> float:
        """Return a finite number.

        Raises RewardFailed for this episode, and any other TrainerError to end the run.
        """
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


def finite(value: object, origin: str) -> float:
    """Return a reward as a float. Raises RewardFailed for what is no finite number."""
    if isinstance(value, bool | int | float):
        number: float | None = float(value)
    else:
        number = _item(value)
    if number is None:
        raise RewardFailed(f"{origin} returned {type(value).__name__}, not a number")
    if not math.isfinite(number):
        raise RewardFailed(f"{origin} returned {number}, which is no finite number")
    return number


def _item(value: object) -> float | None:
    """Return a number of numpy or torch; None for anything else."""
    item = getattr(value, "item", None)
    try:
        return float(item()) if callable(item) else None
    except (TypeError, ValueError, RuntimeError):
        return None
