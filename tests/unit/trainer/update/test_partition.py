from collections import Counter
from itertools import chain

import pytest

from trainer.update.mesh import Mesh
from trainer.update.partition import micro_batches, minibatches, rank_micro_batches, shares

LENGTHS = [5, 9, 3, 3, 8, 1, 7, 9, 2, 6]
ALL = list(range(len(LENGTHS)))


def test_minibatches_are_a_permutation_that_the_seed_decides():
    first = minibatches(10, 3, (0, 4, 1))
    assert first == minibatches(10, 3, (0, 4, 1))
    assert first != minibatches(10, 3, (0, 5, 1))
    assert sorted(chain.from_iterable(first)) == ALL
    assert sorted(map(len, first)) == [3, 3, 4]


def test_there_are_no_empty_minibatches():
    assert [len(part) for part in minibatches(2, 5, (0,))] == [1, 1]
    assert minibatches(0, 5, (0,)) == []


@pytest.mark.parametrize("world", [1, 2, 3, 20])
def test_shares_are_all_rows_once_and_even_in_tokens(world):
    dealt = shares(LENGTHS, ALL, world)
    assert Counter(chain.from_iterable(dealt)) == Counter(ALL)
    tokens = [sum(LENGTHS[row] for row in share) for share in dealt]
    assert max(tokens) - min(tokens) <= max(LENGTHS)


@pytest.mark.parametrize("layout", ["padded", "packed"])
@pytest.mark.parametrize("budget", [9, 12, 20, 1000])
def test_micro_batches_keep_the_budget_and_lose_nothing(layout, budget):
    places = micro_batches(LENGTHS, ALL, budget, layout)
    assert Counter(chain.from_iterable(places)) == Counter(ALL)
    for place in places:
        lengths = [LENGTHS[row] for row in place]
        assert (max(lengths) * len(lengths) if layout == "padded" else sum(lengths)) <= budget


def test_a_row_beyond_the_budget_stands_alone():
    assert (0,) in micro_batches([50, 2, 2], [0, 1, 2], 10, "padded")
    assert (0,) in micro_batches([50, 2, 2], [0, 1, 2], 10, "packed")


@pytest.mark.parametrize("rows", [ALL, [1], [0, 1, 2]])
def test_all_ranks_have_as_many_passes(rows):
    world = 3
    plans = [rank_micro_batches(LENGTHS, rows, Mesh(rank, world), 10, "padded") for rank in range(world)]
    assert len({len(plan) for plan in plans}) == 1
    assert Counter(row for plan in plans for place in plan for row in place) == Counter(rows)


def test_ranks_that_share_rows_have_the_same_passes_of_a_budget_for_each():
    plans = [rank_micro_batches(LENGTHS, ALL, Mesh(rank, 4, context=2), 10, "packed") for rank in range(4)]
    assert plans[0] == plans[1]
    assert plans[2] == plans[3]
    assert Counter(row for plan in plans[::2] for place in plan for row in place) == Counter(ALL)
    assert max(sum(LENGTHS[row] for row in place) for place in plans[0]) > 10
