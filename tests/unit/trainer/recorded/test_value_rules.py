"""Selection by value: the best places of groups, in order, and the first of equal ones."""

import math

import pytest

from trainer.recorded.value_rules import alike, at_least, best_of_each, ranked, softmax_weights

VALUES = [0.5, 1.0, 0.5, 0.0, 1.0]


def test_of_equal_values_the_first_is_better():
    assert ranked(VALUES, range(5)) == [1, 4, 0, 2, 3]


def test_a_threshold_itself_is_enough():
    assert at_least(VALUES, 0.5) == [0, 1, 2, 4]


def test_a_threshold_that_rounding_alone_misses_is_enough():
    assert at_least([sum([0.1] * 10), 0.99], 1.0) == [0]


def test_the_best_of_each_group_keep_their_order():
    groups = alike("aabab")
    assert groups == [[0, 1, 3], [2, 4]]
    assert best_of_each(VALUES, groups, lambda size: size - 1) == [0, 1, 4]
    assert best_of_each([], [range(0)], lambda _: 1) == []


def test_weights_are_powers_with_a_mean_of_1():
    worse, better = softmax_weights([0.0, 0.5], 0.5)
    assert better / worse == pytest.approx(math.e)
    assert worse + better == pytest.approx(2.0)
    assert softmax_weights([], 1.0) == []


def test_a_tiny_temperature_gives_the_best_all_the_weight():
    assert softmax_weights([0.0, 1.0, 1.0], 1e-310) == [0.0, 1.5, 1.5]
