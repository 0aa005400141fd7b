"""Which user ids a box may use: a range of its own for each, so that no two boxes ever share one.

The kernel counts processes, pending signals and message queues by user id across containers, so equal ids
would let boxes feel each other; and a process box is ended by its ids, so two services on one machine that
had the same would end each other's. Ranges lie far above the ids that systems give to people and services.
"""

from __future__ import annotations

import os
import socket
import weakref
import zlib
from collections import deque

from sandbox_contract.problems import ErrorCode
from sandbox_service.errors import ServiceError

__all__ = ["RANGE", "UidRanges"]

FIRST = 1_000_000_000
RANGE = 65_536
"""Ids of one box: every instance of its life gets fresh ones."""
_BOXES_PER_NODE = 1024
_NODES = 16
_CLAIMS = "training-sandbox-uids"


class UidRanges:
    """Hands out ranges to the boxes of one node, which has a part of the ids to itself until it closes."""

    def __init__(self, node: str, claims: str = _CLAIMS) -> None:
        """Raises ServiceError(SANDBOX_FAILED) when all parts are taken."""
        part, claim = _claim(claims, zlib.crc32(node.encode()) % _NODES)
        self._first = FIRST + part * _BOXES_PER_NODE * RANGE
        self._free = deque(range(_BOXES_PER_NODE))
        self._release = weakref.finalize(self, os.close, claim)

    def close(self) -> None:
        """Let another node have the part. Idempotent."""
        self._release()

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


def _claim(claims: str, wanted: int) -> tuple[int, int]:
    """The wanted part of the ids, or the next that is free; the descriptor that keeps it from others.

    A name of an abstract socket can be had once on a machine, and is free when its holder is gone, however
    that ended. A node that comes back gets its old part, unless it was given away meanwhile.
    """
    for offset in range(_NODES):
        part = (wanted + offset) % _NODES
        with socket.socket(socket.AF_UNIX) as name:
            try:
                name.bind(f"\0{claims}-{part}")
            except OSError:
                continue
            return part, name.detach()
    detail = f"{_NODES} services on this machine have taken all user ids for boxes"
    raise ServiceError(ErrorCode.SANDBOX_FAILED, detail)
