"""Histograms of rewards, whose bins are conditions of a search."""

import math
import random
from urllib.parse import parse_qs, urlsplit

import pytest

from sandbox_service.console.histogram import MOST_BINS, linked_bins, reward_bins
from sandbox_service.console.search_form import query_of, read_form


def test_few_different_rewards_have_a_bin_each():
    found = [(each.label, each.count) for each in reward_bins([1.0, 0.0, 1.0, 0.5, 1.0])]
    assert found == [("0", 1), ("0.5", 1), ("1", 3)]


def test_many_different_rewards_have_bins_of_one_readable_width():
    bins = reward_bins(number / 100 for number in range(101))
    assert [each.label for each in bins] == [f"{low / 10:g} to {(low + 1) / 10:g}" for low in range(10)]
    assert [each.count for each in bins] == [10] * 9 + [11]


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-3.7, 12.9), (1e6, 1e6 + 1), (-1e-7, 2e-7), (0, 1e300), (0.1, 0.7)]
)
def test_every_reward_is_within_exactly_one_bin(low, high):
    rewards = [random.Random(number).uniform(low, high) for number in range(200)]
    bins = reward_bins(rewards)
    assert 1 <= len(bins) <= MOST_BINS
    for each in bins:
        assert sum(each.least <= reward <= each.most for reward in rewards) == each.count
    assert sum(each.count for each in bins) == 200


@pytest.mark.parametrize("spread", [0.0, 1e-15, 1e308])
def test_rewards_too_close_or_too_far_apart_for_a_width_share_a_bin(spread):
    rewards = {1.0} if not spread else {1.0 + number * spread / 6 for number in range(-20, 20)}
    assert sum(each.count for each in reward_bins(rewards)) == sum(map(math.isfinite, rewards))


def test_rewards_that_are_not_finite_and_none_at_all_have_no_bin():
    assert reward_bins([math.nan, math.inf]) == ()
    assert reward_bins([]) == ()


@pytest.mark.parametrize(
    ("conditions", "chosen"),
    [
        ({}, [False, False, False]),
        ({"least_reward": "0.5"}, [False, True, True]),
        ({"most_reward": "0.7"}, [True, True, False]),
    ],
    ids=str,
)
def test_bins_within_the_searched_range_are_marked(conditions, chosen):
    form = read_form(conditions)
    bins = linked_bins([0.0, 0.5, 1.0], form, query_of(form, "ada", None), before="")
    assert [each.chosen for each in bins] == chosen


def test_a_bin_links_to_its_search_and_the_chosen_one_is_marked():
    form = read_form({"task": "sum", "least_reward": "0.25", "most_reward": "0.25"})
    bins = linked_bins([0.25, 1 / 3, 1 / 3], form, query_of(form, "ada", None), before="9.0 s1.a")
    assert [(each.count, each.height, each.chosen) for each in bins] == [(1, 50.0, True), (2, 100.0, False)]
    given = {name: value for name, (value,) in parse_qs(urlsplit(bins[1].url).query).items()}
    assert (given["task"], given["before"]) == ("sum", "9.0 s1.a")
    assert float(given["least_reward"]) == float(given["most_reward"]) == 1 / 3
