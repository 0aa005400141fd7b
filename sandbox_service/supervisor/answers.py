"""Holds answers for repeated calls within a number of bytes.

Over the bound, the tenant that holds the most loses its least recently used answers: one tenant with large
answers does not push out those of others. What is dropped here is read from the trajectory store.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from sandbox_service.wire.frames import Frame


_OVERHEAD = 512
"""Bytes of an answer beside its body."""


@dataclass(slots=True, eq=False)
class KeyEntry:
    """What is known of an idempotency key."""

    digest: bytes
    running: asyncio.Task[Frame] | None = None
    """The execution that later calls join."""
    answer: Frame | None = None
    """The answer, while it is held in memory."""


class AnswerMemory:
    """The answers of one supervisor, by tenant."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._entries: dict[str, OrderedDict[KeyEntry, int]] = {}
        self._held: dict[str, int] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes of all answers that are held."""
        return self._bytes

    def hold(self, tenant: str, entry: KeyEntry, answer: Frame) -> None:
        """Keep the answer of a key; older ones go when there is no room."""
        entry.answer = answer
        size = len(answer.body) + _OVERHEAD
        entries = self._entries.get(tenant)
        if entries is None:
            entries = self._entries[tenant] = OrderedDict()
            self._held[tenant] = 0
        entries[entry] = size
        self._bytes += size
        self._held[tenant] += size
        while self._bytes > self._most:
            largest = max(self._held, key=self._held.__getitem__)
            self.drop(largest, next(iter(self._entries[largest])))

    def used(self, tenant: str, entry: KeyEntry) -> None:
        """Note that the answer was asked for again, so that it is dropped last."""
        if entry.answer is not None:
            self._entries[tenant].move_to_end(entry)

    def drop(self, tenant: str, entry: KeyEntry) -> None:
        """Forget the answer, if it is held."""
        if entry.answer is None:
            return
        entry.answer = None
        entries = self._entries[tenant]
        size = entries.pop(entry)
        self._bytes -= size
        self._held[tenant] -= size
        if not entries:
            del self._entries[tenant], self._held[tenant]
