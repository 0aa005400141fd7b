from dataclasses import replace

import numpy as np

from tests.harness.learning import small_batch
from trainer.weight_sync.probes import BUDGET, probes_of_batch, probes_of_draws


def test_probes_are_beginnings_of_the_batchs_own_samples():
    batch = small_batch(rows=40, shortest=30, longest=40)
    rows = [sample.token_ids_T.tolist() for sample in batch.samples]
    for probe in probes_of_batch(batch):
        assert any(row[: len(probe.token_ids)] == list(probe.token_ids) for row in rows)
        assert len(probe.compared) == len(probe.token_ids)
        assert not probe.compared[0]


def test_sampled_tokens_are_compared_where_there_are_enough_of_them():
    batch = small_batch(rows=40, shortest=30, longest=40)
    batch = replace(
        batch,
        samples=tuple(replace(each, mask_T=np.arange(len(each)) >= 10) for each in batch.samples),
    )
    for probe in probes_of_batch(batch):
        assert not any(probe.compared[:10])
        assert all(probe.compared[10:])


def test_the_context_is_compared_as_well_behind_a_long_prompt():
    batch = small_batch(rows=2, shortest=3000, longest=3000)
    (probe,) = probes_of_batch(batch)
    assert all(probe.compared[1:])


def test_probes_stay_within_their_budget_and_leave_room_for_the_token_that_an_engine_samples():
    batch = small_batch(rows=200, shortest=20, longest=90)
    probes = probes_of_batch(batch)
    assert sum(len(probe.token_ids) for probe in probes) <= BUDGET
    lengths = {sample.token_ids_T.tobytes(): len(sample) for sample in batch.samples}
    assert max(len(probe.token_ids) for probe in probes) < max(lengths.values())


def test_every_group_is_asked_about_before_one_is_asked_twice():
    batch = small_batch(rows=16, shortest=60, longest=60)
    first = [tuple(sample.token_ids_T[:59].tolist()) for sample in batch.samples[::2]]
    assert [probe.token_ids for probe in probes_of_batch(batch)[:8]] == first


def test_of_a_draw_everything_but_the_first_token_is_compared():
    assert [probe.compared for probe in probes_of_draws(((1, 2, 3), (1,)))] == [(False, True, True)]


def test_a_batch_in_which_nothing_was_sampled_gives_none():
    batch = small_batch(rows=3)
    batch = replace(
        batch, samples=tuple(replace(each, mask_T=np.zeros(len(each), bool)) for each in batch.samples)
    )
    assert probes_of_batch(batch) == ()
