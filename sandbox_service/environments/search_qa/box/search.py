"""BM25 search over passages (Robertson and Zaragoza, 2009). Standard library only."""

from __future__ import annotations

import functools
import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from .passages import Passage, load_passages

_K1 = 1.2
_B = 0.75
_WORD = re.compile(r"\w+")
_MOST_WORDS = 64
"""Different words of a query that count."""
_MOST_CHARACTERS = 2000
"""Characters of a query that are read."""


class SearchIndex:
    """An inverted index with the weight of each word in each passage."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        counts = [Counter(words_of(f"{each.title} {each.text}")) for each in passages]
        lengths = [each.total() for each in counts]
        average = sum(lengths) / max(1, len(lengths))
        containing = Counter(word for each in counts for word in each)
        self._passages = passages
        self._weights: dict[str, list[tuple[int, float]]] = {word: [] for word in containing}
        for number, (words, length) in enumerate(zip(counts, lengths, strict=True)):
            norm = _K1 * (1 - _B + _B * length / average)
            for word, count in words.items():
                rarity = math.log(1 + (len(passages) - containing[word] + 0.5) / (containing[word] + 0.5))
                self._weights[word].append((number, rarity * count * (_K1 + 1) / (count + norm)))

    def find(self, query: str, count: int) -> list[Passage]:
        """Return the passages that match best, the best first; of equals, the one with the lower number."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in list(dict.fromkeys(words_of(query[:_MOST_CHARACTERS])))[:_MOST_WORDS]:
            for number, weight in self._weights.get(word, ()):
                scores[number] += weight
        best = heapq.nsmallest(count, scores.items(), key=lambda item: (-item[1], item[0]))
        return [self._passages[number] for number, _ in best]


def words_of(text: str) -> list[str]:
    """Return the words of a text in small letters."""
    return _WORD.findall(text.lower())


@functools.cache
def load_index() -> SearchIndex:
    """Return the index of the encyclopedia."""
    return SearchIndex(load_passages())
