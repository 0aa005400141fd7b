"""Broadcast values from rank 0 to the learner's other ranks."""

from __future__ import annotations

from typing import Any, TypeVar

import torch.distributed as dist

T = TypeVar("T")


def from_rank_zero(value: T) -> T:
    """Return rank 0's value on every rank; collective. No rank returns before rank 0 has called it.

    Without a process group, return the value itself.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return value
    values: list[Any] = [value]
    dist.broadcast_object_list(values, src=0)
    found: T = values[0]
    return found
