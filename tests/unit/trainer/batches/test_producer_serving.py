"""Service of a batch: its groups are read once, and nothing that can wait holds it up."""

import asyncio
import threading

from tests.fakes.batches import FakePlayer, run_config
from tests.harness.producer_steps import consumed, same, started, sync_weights
from trainer.batches.events import Assembled
from trainer.batches.journal import BatchJournal


class CountingJournal(BatchJournal):
    """Counts reads of groups."""

    reads = 0

    def group(self, index):
        self.reads += 1
        return super().group(index)


class HeldJournal(BatchJournal):
    """Waits before it marks exports, or before it writes assembled batches, until it is let go."""

    def __init__(self, file, held):
        super().__init__(file)
        self.go_on = threading.Event()
        self._held = held

    def mark_exported(self, step, sizes):
        if self._held == "exports":
            self.go_on.wait()
        super().mark_exported(step, sizes)

    def append(self, event, payload=None):
        if self._held == "batches" and isinstance(event, Assembled):
            self.go_on.wait()
        super().append(event, payload)


def opened(kind, *arguments):
    """A way to open a journal, and the journals that it has opened."""
    journals = []

    def open_journal(file):
        journals.append(kind(file, *arguments))
        return journals[-1]

    return open_journal, journals


async def test_the_groups_of_a_batch_are_read_once_after_a_restart_and_not_at_all_before(tmp_path):
    open_journal, journals = opened(CountingJournal)
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player, journal=open_journal)
    await sync_weights(made, player, 0)
    first = await made.get_batch(0)
    await made.close()
    assert journals[0].reads == 0
    again = await started(run_config(), tmp_path, player, journal=open_journal)
    assert all(same(first, batch) for batch in await asyncio.gather(again.get_batch(0), again.get_batch(0)))
    assert journals[1].reads == 4
    await again.close()


async def test_a_batch_is_served_before_the_files_beside_the_journal_are_written(tmp_path):
    open_journal, journals = opened(HeldJournal, "exports")
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player, journal=open_journal)
    await sync_weights(made, player, 0)
    assert (await made.get_batch(0)).step == 0
    journals[0].go_on.set()
    await made.close()
    assert [line["step"] for line in consumed(tmp_path)] == [0]


async def test_the_next_steps_instances_are_asked_for_before_the_batch_is_on_disk(tmp_path):
    open_journal, journals = opened(HeldJournal, "batches")
    player, asked = FakePlayer(), asyncio.Event()
    made = await started(run_config(), tmp_path, player, journal=open_journal, prepare=lambda *_: asked.set())
    await sync_weights(made, player, 0)
    taking = asyncio.create_task(made.get_batch(0))
    await asked.wait()
    assert not taking.done()
    journals[0].go_on.set()
    await taking
    await made.close()


async def test_a_caller_that_is_cancelled_leaves_no_step_out_of_the_files(tmp_path):
    open_journal, journals = opened(HeldJournal, "batches")
    player, asked = FakePlayer(), asyncio.Event()
    made = await started(run_config(), tmp_path, player, journal=open_journal, prepare=lambda *_: asked.set())
    await sync_weights(made, player, 0)
    taking = asyncio.create_task(made.get_batch(0))
    await asked.wait()
    taking.cancel()
    journals[0].go_on.set()
    assert (await made.get_batch(0)).step == 0
    await made.close()
    assert [line["step"] for line in consumed(tmp_path)] == [0]
