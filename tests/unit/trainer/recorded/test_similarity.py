import random

import pytest

from trainer.recorded.similarity import NearDuplicateIndex, jaccard, ngrams


def test_ngrams_ignore_case_and_punctuation() -> None:
    assert ngrams("Open the door, now!", 2) == ngrams("open THE door now", 2)
    assert len(ngrams("open the door now", 2)) == 3


def test_a_text_of_fewer_words_is_one_ngram() -> None:
    assert len(ngrams("open", 5)) == 1
    assert ngrams("...", 5) == frozenset()


def test_different_ngrams_have_different_hashes() -> None:
    drawn = random.Random(0)
    words = {f"{drawn.getrandbits(80):x}" for _ in range(300_000)}
    assert len(ngrams(" ".join(words), 1)) == len(words)


@pytest.mark.parametrize("similarity", [0.3, 0.5, 0.8, 0.95])
def test_pairs_above_the_bound_are_found_and_pairs_below_never(similarity: float) -> None:
    drawn = random.Random(0)
    found = above = 0
    for _ in range(60):
        words = [str(drawn.random()) for _ in range(100)]
        changed = [word if drawn.random() < (1 + similarity) / 2 else "other" for word in words]
        one, other = ngrams(" ".join(words), 1), ngrams(" ".join(changed), 1)
        index = NearDuplicateIndex(similarity)
        assert index.find_or_add(one) is False
        near = index.find_or_add(other)
        if jaccard(one, other) < similarity:
            assert near is False
        else:
            above += 1
            found += near
    assert above > 5
    assert found >= 0.98 * above
