"""What one pool of boxes may do: its bounds, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_service.config import PoolConfig

__all__ = ["FORK_ALLOWANCE", "PoolPolicy"]

FORK_ALLOWANCE = 64
"""Copies by which the instances of a box may exceed its capacity; the contract's largest fork."""


@dataclass(frozen=True, slots=True)
class PoolPolicy:
    """Bounds of the boxes of one environment on one node."""

    min_boxes: int
    max_boxes: int
    max_starting: int
    capacity: int
    """Instances that a box takes."""
    agent_code: bool
    """Agent code runs in the boxes: an empty box is cleaned before it is used again."""
    max_uses: int | None
    """Instances after which a box is destroyed; None where no agent code runs."""
    queue_limit: int
    queue_timeout_s: float
    fork_allowance: int = FORK_ALLOWANCE

    @classmethod
    def of(cls, config: PoolConfig, *, capacity: int, agent_code: bool) -> PoolPolicy:
        """The policy that a pool's configuration means for boxes of a capacity."""
        return cls(
            min_boxes=min(config.min_boxes, config.max_boxes),
            max_boxes=config.max_boxes,
            max_starting=config.max_starting,
            capacity=capacity,
            agent_code=agent_code,
            max_uses=config.max_uses if agent_code else None,
            queue_limit=config.queue_limit,
            queue_timeout_s=config.queue_timeout_s,
        )
