"""The reward of purchases, by the published formula."""

import pytest

from sandbox_service.environments.webshop.box.goals import Goal
from tests.harness.webshop_products import product

pytest.importorskip("thefuzz", reason="webshop is not set up; run sandbox-service envs setup webshop")

from sandbox_service.environments.webshop.box.scoring import reward, title_words, type_factor

MUG = product()
GOAL = Goal(
    "B000000001", "...", ("lead free", "dishwasher safe"), (("color", "red"), ("size", "large")), 20.0
)


def test_the_right_product_with_the_right_options_earns_one():
    assert reward(MUG, {"color": "red", "size": "large"}, GOAL, MUG) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, 3 / 5), ({"color": "red"}, 4 / 5), ({"color": "blue", "size": "large"}, 4 / 5)],
    ids=["no-option", "one-option", "one-wrong"],
)
def test_each_option_counts(options, expected):
    assert reward(MUG, options, GOAL, MUG) == pytest.approx(expected)


def test_a_price_above_the_limit_costs_one_part():
    dear = product(price=21.0)
    assert reward(dear, {"color": "red", "size": "large"}, GOAL, dear) == pytest.approx(4 / 5)


def test_attributes_match_alike_or_when_the_texts_mention_them():
    plain = product(attributes=("lead-free glaze",), bullet_points=("It is Dishwasher Safe.",))
    assert reward(plain, {"color": "red", "size": "large"}, GOAL, plain) == 1
    other = product(attributes=(), bullet_points=())
    assert reward(other, {"color": "red", "size": "large"}, GOAL, other) == pytest.approx(3 / 5)


def test_a_shade_counts_as_its_colour():
    goal = Goal("B000000001", "...", ("lead free",), (("color", "wine red"),), 20.0)
    assert reward(MUG, {"color": "blood red"}, goal, MUG) == 1


def test_a_colour_inside_a_longer_word_is_missed_as_in_the_original():
    goal = Goal("B000000001", "...", ("lead free",), (("color", "228black"),), 20.0)
    assert reward(MUG, {"color": "228black"}, goal, MUG) == pytest.approx(2 / 3)


def test_a_human_request_names_no_option():
    goal = Goal("B000000001", "...", ("lead free",), (("", "228black"),), 20.0)
    assert reward(MUG, {"color": "black"}, goal, MUG) == 1


TITLES = {
    "the same kind by query": ({"title": "Mug", "query": "mugs", "product_category": "A"}, 1.0),
    "the same kind by two categories": ({"title": "Mug", "query": "cups"}, 1.0),
    "the same kind by title": ({"title": "Stoneware Mug", "query": "cups", "product_category": "A"}, 1.0),
    "nothing in common": ({"title": "Zeppelin"}, 0.0),
}


@pytest.mark.parametrize(("changes", "expected"), TITLES.values(), ids=list(TITLES))
def test_the_kind_of_product_is_a_factor(changes, expected):
    assert type_factor(product(**changes), MUG) == expected


def test_another_kind_with_a_few_words_in_common_counts_half_or_a_tenth():
    other = {"query": "cups", "product_category": "A"}
    wanted = product(title=" ".join(f"word{letter}" for letter in "abcdefghijkl"))
    assert type_factor(product(title="worda wordb", **other), wanted) == 0.5
    assert type_factor(product(title="worda", **other), wanted) == 0.1


def test_words_of_titles_are_letters_without_stop_words():
    assert title_words("Mug, 300ml x2, for the Office") == ["mug", "ml", "office"]


def test_a_title_without_words_is_no_obstacle():
    wanted = product(title="300 & 2")
    assert type_factor(product(title="Zeppelin"), wanted) == 1.0
