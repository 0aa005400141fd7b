"""Idempotency keys: one execution and the same bytes for each, within a bounded memory.

The latest answers are kept whole. Older keys are kept as a fingerprint only: their answers are in the
trajectory store, which also outlives the supervisor.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Generic, TypeVar

from sandbox_service.contract.problems import ErrorCode
from sandbox_service.errors import ServiceError
from sandbox_service.runner.frames import Frame, Op

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Hashable

    from sandbox_service.trajectories.records import EventRecord

__all__ = ["KeyEntry", "KeyMemory", "conflict", "digest_of", "recorded_answer", "same_json"]

_K = TypeVar("_K", bound="Hashable")


@dataclass(slots=True)
class KeyEntry:
    """What is known of a key."""

    digest: bytes
    running: asyncio.Task[Frame] | None = None
    """The execution that later calls join."""
    answer: Frame | None = None
    """The answer, while it is among the latest."""


class KeyMemory(Generic[_K]):
    """The keys of one instance, or of all creates."""

    def __init__(self, answers: int = 4, keys: int = 4096) -> None:
        self._answers = answers
        self._keys = keys
        self._entries: OrderedDict[_K, KeyEntry] = OrderedDict()
        self._warm: OrderedDict[_K, KeyEntry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: _K) -> KeyEntry | None:
        """What is known of the key."""
        return self._entries.get(key)

    def begin(self, key: _K, digest: bytes, task: asyncio.Task[Frame]) -> None:
        """An execution begins under the key."""
        self._entries[key] = KeyEntry(digest, running=task)

    def settle(self, key: _K, answer: Frame) -> None:
        """The execution has this outcome for ever."""
        entry = self._entries[key]
        entry.running = None
        entry.answer = answer
        self._warm[key] = entry
        if len(self._warm) > self._answers:
            self._warm.popitem(last=False)[1].answer = None
        self._trim()

    def forget(self, key: _K) -> None:
        """Nothing was executed: the key is free again."""
        self._entries.pop(key, None)

    def recall(self, key: _K, digest: bytes) -> None:
        """Take over a key from the store, whose answer stays there."""
        self._entries[key] = KeyEntry(digest)
        self._trim()

    def _trim(self) -> None:
        while len(self._entries) > self._keys:
            oldest, entry = next(iter(self._entries.items()))
            if entry.running is not None:
                return
            del self._entries[oldest]
            self._warm.pop(oldest, None)


def digest_of(op: Op, body: bytes) -> bytes:
    """The fingerprint of a request."""
    return blake2b(body, digest_size=16, salt=op.to_bytes(1, "big")).digest()


def same_json(left: bytes, right: bytes) -> bool:
    """Whether two bodies say the same, however they are written."""
    if left == right:
        return True
    try:
        return bool(json.loads(left) == json.loads(right))
    except (ValueError, RecursionError):
        return False


def conflict(key: str) -> ServiceError:
    """The error of a key that was used for another request."""
    return ServiceError(
        ErrorCode.IDEMPOTENCY_CONFLICT, f"the idempotency key {key!r} was used for another request"
    )


def recorded_answer(event: EventRecord, instance_id: str) -> Frame:
    """The frame that a recorded operation was answered with."""
    op = Op.REPLY if event.status < 400 else Op.ERROR
    meta = dict(event.timing_ms) if op is Op.REPLY else {}
    return Frame(op, 0, instance_id, meta, event.response)
