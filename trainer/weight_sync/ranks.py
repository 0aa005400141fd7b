"""What rank 0 knows, told to the learner's other ranks."""

from __future__ import annotations

from typing import Any, TypeVar

import torch.distributed as dist

T = TypeVar("T")


def from_rank_zero(value: T) -> T:
    """Rank 0's value on every rank; collective. No rank returns from it before rank 0 has called it.

    Without a process group there is one rank, whose value it is.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return value
    told: list[Any] = [value]
    dist.broadcast_object_list(told, src=0)
    found: T = told[0]
    return found
