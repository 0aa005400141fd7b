"""Full-text search over products: BM25 with the analysis and the constants of WebShop's Lucene index.

Words are cut like Lucene's standard tokenizer does, freed of English stop words and stemmed after Porter;
BM25 is Lucene's, with k1 = 0.9 and b = 0.4. Equal scores keep the products' order, so results are the same
on every machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

# Of numpy's threads none is used, and each counts against a box's limit of them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import bm25s
import numpy
import Stemmer

MOST_RESULTS = 50
_K1, _B = 0.9, 0.4
_WORD = re.compile(
    r"[^\W_]+(?:(?<=\d)[.,](?=\d)[^\W_]+|(?<=[^\W\d_])['’.](?=[^\W\d_])[^\W_]+)*"  # noqa: RUF001
)
_POSSESSIVE = re.compile(r"['’]s$")  # noqa: RUF001
_UNSEARCHED = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there"
    " these they this to was will with"
)
_STOP_WORDS = frozenset(_UNSEARCHED.split())


class Index:
    """Texts, by their place, in the order in which a query asks for them."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._stemmer = Stemmer.Stemmer("porter")
        self._ranking = bm25s.BM25(method="lucene", k1=_K1, b=_B)
        self._ranking.index([self._terms(text) for text in texts], show_progress=False)

    def search(self, query: str) -> list[int]:
        """Return places of the texts that have words of the query, best first."""
        terms = self._ranking.get_tokens_ids(self._terms(query))
        if not terms:
            return []
        scores = self._ranking.get_scores_from_ids(terms)
        best = numpy.argsort(-scores, kind="stable")[:MOST_RESULTS]
        return [int(place) for place in best if scores[place] > 0]

    def _terms(self, text: str) -> list[str]:
        words = (_POSSESSIVE.sub("", word) for word in _WORD.findall(text.lower()))
        terms: list[str] = self._stemmer.stemWords([word for word in words if word not in _STOP_WORDS])
        return terms
