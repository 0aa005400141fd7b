"""Similar texts: word n-grams, their Jaccard similarity, and MinHash, which finds candidates for it.

MinHash (Broder, "On the resemblance and containment of documents", 1997): two sets agree in the least hash of
a random permutation with the probability of their Jaccard similarity. Signatures are cut into bands; texts
with a band in common are candidates, and candidates are compared exactly, so that nothing is a duplicate by
chance.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PERMUTATIONS = 128
_PRIME = (1 << 31) - 1
_SEED = 20_061_997
_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    return _WORD.findall(text.lower())


def ngrams(text: str, words: int) -> frozenset[int]:
    """Return the hashes of a text's n-grams of words, in lower case and without punctuation; the one of all
    words where there are fewer.

    They have 64 bits, so that no two n-grams of large data sets have the same by chance.
    """
    found = words_of(text)
    if not found:
        return frozenset()
    grams = (found[place : place + words] for place in range(max(1, len(found) - words + 1)))
    return frozenset(_hash(" ".join(gram)) for gram in grams)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def jaccard(one: frozenset[int], other: frozenset[int]) -> float:
    """Return the share of the union that both sets have; 1 for two empty sets."""
    union = len(one | other)
    return len(one & other) / union if union else 1.0


class NearDuplicateIndex:
    """Find texts that are at least ``similarity`` similar to one added before.

    A pair just at ``similarity`` is missed with a probability of less than one in a hundred, and a more
    similar pair less often.
    """

    def __init__(self, similarity: float) -> None:
        self._similarity = similarity
        self._rows = _rows_of_a_band(similarity)
        random = np.random.default_rng(_SEED)
        self._factors = random.integers(1, _PRIME, size=(_PERMUTATIONS, 1), dtype=np.uint64)
        self._shifts = random.integers(0, _PRIME, size=(_PERMUTATIONS, 1), dtype=np.uint64)
        self._buckets: dict[tuple[int, bytes], list[int]] = {}
        self._sets: list[frozenset[int]] = []

    def __len__(self) -> int:
        return len(self._sets)

    def find_or_add(self, grams: frozenset[int]) -> bool:
        """Return whether a similar text was added before; if not, add this one."""
        bands = self._bands(grams)
        candidates = {place for band in bands for place in self._buckets.get(band, ())}
        if any(jaccard(grams, self._sets[place]) >= self._similarity for place in candidates):
            return True
        for band in bands:
            self._buckets.setdefault(band, []).append(len(self._sets))
        self._sets.append(grams)
        return False

    def _bands(self, grams: frozenset[int]) -> list[tuple[int, bytes]]:
        signature = self._signature(grams)
        return [
            (start, signature[start : start + self._rows].tobytes())
            for start in range(0, _PERMUTATIONS, self._rows)
        ]

    def _signature(self, grams: frozenset[int]) -> NDArray[np.uint64]:
        if not grams:
            return np.full(_PERMUTATIONS, _PRIME, dtype=np.uint64)
        values = np.fromiter(grams, dtype=np.uint64, count=len(grams)) % np.uint64(_PRIME)
        least: NDArray[np.uint64] = ((self._factors * values + self._shifts) % np.uint64(_PRIME)).min(axis=1)
        return least


def _rows_of_a_band(similarity: float) -> int:
    """Return the most rows of a band with which a pair at the bound is missed in less than 1 case of 100."""
    for rows in (16, 8, 4, 2):
        missed = (1 - similarity**rows) ** (_PERMUTATIONS // rows)
        if missed < 0.01:
            return rows
    return 1
