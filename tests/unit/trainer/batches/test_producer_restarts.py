"""The same batches come again, to the last number, over restarts and rewinds."""

import asyncio

import pytest

from tests.fakes.batches import FakePlayer, FakeTaskService, batch_producer, run_config
from tests.harness.producer_steps import ids, same, started, sync_weights
from tests.harness.waiting import settle, until
from trainer.errors import CheckpointError


async def test_a_step_is_the_same_batch_for_every_caller(tmp_path):
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player)
    await sync_weights(made, player, 0)
    first, second = await asyncio.gather(made.get_batch(0), made.get_batch(0))
    assert same(first, second)
    assert same(first, await made.get_batch(0))
    await made.close()


async def test_after_a_restart_the_same_batches_come_again_and_ready_groups_are_not_played_again(tmp_path):
    player = FakePlayer()
    config = run_config(rollout={"max_staleness": 1})
    made = await started(config, tmp_path, player)
    await sync_weights(made, player, 0)
    first = await made.get_batch(0)
    await until(lambda: len(player.begun) == 16 and player.under_way == 0)
    await made.close()

    service = FakeTaskService()
    again = await started(config, tmp_path, player, service=service)
    assert same(first, await again.get_batch(0))
    await sync_weights(again, player, 1)
    assert not set(ids(await again.get_batch(1))) & set(ids(first))
    assert max(player.attempts.values()) == 1
    assert service.listed == 0
    await again.close()


async def test_groups_under_way_at_a_restart_are_played_again_from_their_beginning(tmp_path):
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player)
    player.hold()
    await sync_weights(made, player, 0)
    await until(lambda: player.under_way == 8)
    await made.close()

    player.held = None
    again = await started(run_config(), tmp_path, player)
    await sync_weights(again, player, 0)
    assert ids(await again.get_batch(0)) == [f"{group}.{member}" for group in range(4) for member in range(2)]
    assert set(player.attempts.values()) == {2}
    await again.close()


async def test_who_takes_the_place_of_a_dead_one_goes_on_with_the_weights_that_the_engines_have(tmp_path):
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player)
    await sync_weights(made, player, 0)
    await made.get_batch(0)
    await sync_weights(made, player, 1)
    await made.close()

    again = batch_producer(run_config(), tmp_path, player)
    await again.start(go_on=True)
    assert (await again.get_batch(1)).metrics["staleness/max"] == 0.0
    await again.rewind(1)
    await again.close()

    last = batch_producer(run_config(), tmp_path, player)
    await last.start(go_on=True)
    assert (await last.status()).version is None
    await last.close()


async def test_rewound_steps_come_again_and_then_new_ones(tmp_path):
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player)
    taken = []
    for step in range(4):
        await sync_weights(made, player, step)
        taken.append(await made.get_batch(step))
    played = len(player.begun)
    await made.rewind(1)
    for step in (1, 2, 3):
        await sync_weights(made, player, step)
        assert same(taken[step], await made.get_batch(step))
    assert len(player.begun) == played
    await sync_weights(made, player, 4)
    assert not set(ids(await made.get_batch(4))) & {each for batch in taken for each in ids(batch)}
    await made.close()


async def test_after_a_rewind_nothing_begins_before_weights_are_synced(tmp_path):
    player = FakePlayer()
    made = await started(run_config(rollout={"max_staleness": 1}), tmp_path, player)
    await sync_weights(made, player, 0)
    await made.get_batch(0)
    await until(lambda: player.under_way == 0 and len(player.begun) == 16)
    player.hold()
    await sync_weights(made, player, 1)
    await until(lambda: player.under_way == 8)
    await made.rewind(0)
    assert player.under_way == 0
    await settle()
    assert player.under_way == 0
    # What was under way belongs to step 2, which weights of version 0 may not sample.
    await sync_weights(made, player, 0)
    await settle()
    assert player.under_way == 0
    await sync_weights(made, player, 1)
    await until(lambda: player.under_way == 8)
    await made.close()


async def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    made = await started(run_config(), tmp_path, FakePlayer())
    with pytest.raises(CheckpointError, match="step 3"):
        await made.rewind(3)
    await made.close()


async def test_what_no_checkpoint_needs_is_forgotten_and_the_rest_is_kept(tmp_path):
    player = FakePlayer()
    config = run_config(checkpoint={"keep": 2})
    made = await started(config, tmp_path, player)
    for step in range(4):
        await sync_weights(made, player, step)
        await made.get_batch(step)
        await made.checkpoint_saved(step + 1)
    await made.close()
    again = await started(config, tmp_path, player)
    assert (await again.get_batch(2)).step == 2
    with pytest.raises(CheckpointError, match="group"):
        await again.get_batch(1)
    await again.close()


async def test_a_learner_that_does_not_find_its_newest_checkpoint_goes_on_from_the_one_before(tmp_path):
    player = FakePlayer()
    made = await started(run_config(checkpoint={"keep": 1}), tmp_path, player)
    for step in range(3):
        await sync_weights(made, player, step)
        await made.get_batch(step)
        await made.checkpoint_saved(step + 1)
    for _ in range(2):
        await made.rewind(2)
        await sync_weights(made, player, 2)
        assert (await made.get_batch(2)).step == 2
        await made.checkpoint_saved(3)
    await made.close()
