"""The idempotency keys of creates: those of recent creates in memory, all of them in the store.

A Bloom filter shows which keys the store may have, so that nearly every create under a new key costs no
lookup. It serves a supervisor that has its database for itself: one that shares it asks the store each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING

from sandbox_service.trajectories.records import KeyedCreate

from .idempotency import KeyCache

if TYPE_CHECKING:
    from sandbox_service.trajectories.base import TrajectoryStore
    from sandbox_service.trajectories.records import EventRecord

    from .idempotency import AnswerCache


_MOST_ANSWERS = 2048
_MOST_IN_MEMORY = 65_536
"""Keys whose running or latest creates are in memory; all others are looked up."""
_MOST_KEYS = 1_000_000
"""Keys on record up to which the filter is worth filling: one in fifty of new keys is then looked up."""
_BITS = 1 << 23
_HASHES = 4


class CreateKeys:
    """Finds the create that was made under a tenant's key."""

    def __init__(self, *, store: TrajectoryStore, answers: AnswerCache) -> None:
        self._store = store
        self._filter: BloomFilter | None = None
        """Keys that may be on record; None if only the store knows."""
        self.cache: KeyCache[tuple[str, str]] = KeyCache(answers, _MOST_ANSWERS, _MOST_IN_MEMORY)
        """By tenant and key."""

    async def load_keys(self) -> None:
        """Fill the filter with the keys on record."""
        keys = await self._store.create_keys(_MOST_KEYS)
        self._filter = None if keys is None else BloomFilter(keys)

    async def find_earlier(self, tenant: str, key: str) -> KeyedCreate:
        """Return the create under a key that is not in memory any more, and note that the key is used."""
        if self._filter is None or self._store.is_shared():
            # The filter does not have the keys of others.
            self._filter = None
            return await self._store.created_by_key(tenant, key)
        if key not in self._filter:
            self._filter.add(key)
            return KeyedCreate()
        return KeyedCreate(await self.find_recorded(tenant, key))

    async def find_recorded(self, tenant: str, key: str) -> EventRecord | None:
        """Return the create under a key from the store."""
        # A key that left the memory a moment ago may still be on its way to the store.
        await self._store.flush()
        return (await self._store.created_by_key(tenant, key)).event


class BloomFilter:
    """A set of strings in a fixed amount of memory: it misses none, and takes a few others for members."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._bits = bytearray(_BITS // 8)
        for key in keys:
            self.add(key)

    def __contains__(self, key: str) -> bool:
        return all(self._bits[place >> 3] & 1 << (place & 7) for place in _places(key))

    def add(self, key: str) -> None:
        """Add a key."""
        for place in _places(key):
            self._bits[place >> 3] |= 1 << (place & 7)


def _places(key: str) -> Iterator[int]:
    digest = blake2b(key.encode(), digest_size=4 * _HASHES).digest()
    for start in range(0, len(digest), 4):
        yield int.from_bytes(digest[start : start + 4], "big") % _BITS
