"""Which user ids a box may use: a range of its own for each, so that no two boxes ever share one.

The kernel counts processes, pending signals and message queues by user id across containers, so equal ids
would let boxes feel each other. Ranges lie far above the ids that systems give to people and services.
"""

from __future__ import annotations

import zlib
from collections import deque

from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

__all__ = ["RANGE", "UidRanges"]

FIRST = 1_000_000_000
RANGE = 65_536
"""Ids of one box: every instance of its life gets fresh ones."""
_BOXES_PER_NODE = 1024
_NODES = 16


class UidRanges:
    """Hands out ranges to the boxes of one node; nodes of one host start at different places."""

    def __init__(self, node: str) -> None:
        self._first = FIRST + zlib.crc32(node.encode()) % _NODES * _BOXES_PER_NODE * RANGE
        self._free = deque(range(_BOXES_PER_NODE))

    @property
    def all(self) -> range:
        """Every id that any box of this node can have."""
        return range(self._first, self._first + _BOXES_PER_NODE * RANGE)

    def take(self) -> range:
        """A range that no living box has. Raises ServiceError(SANDBOX_FAILED) when all are taken."""
        if not self._free:
            raise ServiceError(ErrorCode.SANDBOX_FAILED, f"a node has at most {_BOXES_PER_NODE} boxes")
        start = self._first + self._free.popleft() * RANGE
        return range(start, start + RANGE)

    def give_back(self, uids: range) -> None:
        """The box of this range is gone; the range is the last to be taken again."""
        self._free.append((uids.start - self._first) // RANGE)
