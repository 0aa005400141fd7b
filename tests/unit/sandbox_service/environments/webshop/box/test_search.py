"""Search as the shop does it."""

import pytest

# bm25s alone says nothing: another environment brings it, too.
pytest.importorskip("Stemmer", reason="webshop is not set up; run sandbox-service envs setup webshop")

from sandbox_service.environments.webshop.box.search import MOST_RESULTS, Index

TEXTS = ["Red running shoes for women", "Blue shoe polish", "A women's red dress", "1.6 oz deodorant"]


def test_the_best_match_comes_first():
    assert Index(TEXTS).search("red shoes")[0] == 0


def test_words_are_stemmed_and_freed_of_possessives():
    index = Index(TEXTS)
    assert set(index.search("shoe")) == set(index.search("shoes")) == {0, 1}
    assert index.search("dresses") == index.search("dress's") == [2]
    assert index.search("woman's") == []


def test_numbers_with_a_point_are_one_word():
    assert Index(TEXTS).search("1.6") == [3]


@pytest.mark.parametrize("query", ["", "the of and", "zeppelin", "[SEP] <r>", "\x00"])
def test_a_query_without_known_words_finds_nothing(query):
    assert Index(TEXTS).search(query) == []


def test_equal_scores_keep_the_order_of_the_texts():
    assert Index(["mug", "cup", "mug", "mug"]).search("mug") == [0, 2, 3]


def test_results_are_limited():
    assert Index(["mug"] * 60 + ["cup"] * 60).search("mug") == list(range(MOST_RESULTS))
