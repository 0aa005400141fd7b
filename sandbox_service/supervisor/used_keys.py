"""Remembers which idempotency keys creates have had, in a fixed amount of memory.

A Bloom filter. It never misses a used key, and takes a few new keys for used ones; for those the store
decides. So nearly every create under a new key costs no look into the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

MOST_KEYS = 1_000_000
"""Keys on record up to which the filter is worth filling: one in fifty of new keys is then looked up."""
_BITS = 1 << 23
_HASHES = 4


class UsedKeys:
    """Keys that may have been used before."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._bits = bytearray(_BITS // 8)
        for key in keys:
            self.add(key)

    def __contains__(self, key: str) -> bool:
        return all(self._bits[place >> 3] & 1 << (place & 7) for place in _places(key))

    def add(self, key: str) -> None:
        """The key is used from now on."""
        for place in _places(key):
            self._bits[place >> 3] |= 1 << (place & 7)


def _places(key: str) -> Iterator[int]:
    digest = blake2b(key.encode(), digest_size=4 * _HASHES).digest()
    for start in range(0, len(digest), 4):
        yield int.from_bytes(digest[start : start + 4], "big") % _BITS
