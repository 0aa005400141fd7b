import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.harness.learning import small_batch
from trainer.update.mesh import Mesh
from trainer.update.outline import filled, is_filled, outlined, row_tokens
from trainer.update.partition import RankShare, minibatches

ARRAYS = ("token_ids_T", "mask_T", "logprobs_T", "rewards_T", "turns_T", "versions_T")


def raw_batch(**sizes):
    """A batch as the producer makes it, with rewards."""
    rng = np.random.default_rng(0)
    batch = small_batch(**sizes)
    for sample in batch.samples:
        sample.rewards_T[-1] = rng.normal()
    return batch


def travelled(thing):
    return pickle.loads(pickle.dumps(thing, protocol=5))


def test_an_outline_and_its_tokens_are_the_batch_again():
    batch = replace(raw_batch(), replayed=frozenset({0}))
    hollow = travelled(outlined(batch)).batch()
    again = filled(hollow, travelled(row_tokens(batch, range(len(batch.samples)))))
    assert (again.step, again.objective, again.metrics) == (batch.step, batch.objective, batch.metrics)
    assert again.replayed == batch.replayed
    for one, other in zip(batch.samples, again.samples, strict=True):
        for name in ARRAYS:
            found = getattr(other, name)
            assert found.dtype == getattr(one, name).dtype
            assert found.tolist() == getattr(one, name).tolist()
        named = ("id", "trajectory_id", "group", "weight", "last", "truncated")
        assert [getattr(one, name) for name in named] == [getattr(other, name) for name in named]


def test_samples_without_tokens_are_told_from_others():
    batch = raw_batch(rows=3)
    some = filled(outlined(batch).batch(), row_tokens(batch, [1]))
    assert [is_filled(sample) for sample in some.samples] == [False, True, False]


def test_a_rank_is_sent_a_share_and_not_the_whole():
    batch = raw_batch(rows=64, shortest=1500, longest=2500)
    whole = len(pickle.dumps(batch, protocol=5))
    share = RankShare(Mesh(0, 8), 5000, "packed")
    sent = len(pickle.dumps(outlined(batch))) + len(pickle.dumps(row_tokens(batch, share.to_score(batch))))
    assert sent < whole / 8


@pytest.mark.parametrize("context", [1, 2])
@pytest.mark.parametrize("layout", ["padded", "packed"])
def test_shares_of_all_ranks_are_all_samples(layout, context):
    batch = raw_batch(rows=13)
    ranks = [RankShare(Mesh(rank, 4, context=context), 48, layout) for rank in range(4)]
    everything = set(range(13))
    assert set().union(*(rank.to_score(batch) for rank in ranks)) == everything
    parts = minibatches(13, 2, (0,))
    assert set().union(*(rank.to_learn(batch, parts) for rank in ranks)) == everything
    assert all(len(rank.to_score(batch)) < 13 for rank in ranks)
