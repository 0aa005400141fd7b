"""Records for the journal's thread reach the disk in order, and none does after a write that failed."""

import threading

import pytest

from trainer.batches.events import Issued
from trainer.batches.journal import BatchJournal
from trainer.batches.writer import JournalWriter
from trainer.types import GroupSpec, TaskRef

TASK = TaskRef("code", "train", "t")


def issued(index):
    return Issued(GroupSpec(index, TASK, 0, 2, 4))


class CountedJournal(BatchJournal):
    """Waits for the test before it writes, and may have no room."""

    def __init__(self, file):
        super().__init__(file)
        self.go = threading.Event()
        self.transactions = 0
        self.full = False

    def append_all(self, entries):
        self.go.wait()
        if self.full:
            raise OSError("no space left on device")
        self.transactions += 1
        super().append_all(entries)


async def test_events_that_wait_together_are_committed_together_and_in_order(tmp_path):
    journal = CountedJournal(tmp_path / "journal.sqlite")
    writer = JournalWriter(journal)
    for index in range(20):
        writer.append(issued(index))
    journal.go.set()
    await writer.flush()
    assert list(BatchJournal(tmp_path / "journal.sqlite").events()) == [issued(index) for index in range(20)]
    assert journal.transactions <= 2
    writer.close()


async def test_a_call_sees_what_was_handed_in_before_it(tmp_path):
    writer = JournalWriter(BatchJournal(tmp_path / "journal.sqlite"))
    writer.append(issued(0))
    assert await writer.call_journal(lambda journal: list(journal.events())) == [issued(0)]
    writer.close()


async def test_after_a_write_that_failed_nothing_more_is_written_and_everybody_hears_of_it(tmp_path):
    journal = CountedJournal(tmp_path / "journal.sqlite")
    journal.go.set()
    journal.full = True
    writer = JournalWriter(journal)
    writer.append(issued(0))
    with pytest.raises(OSError, match="no space left"):
        await writer.flush()
    journal.full = False
    with pytest.raises(OSError, match="no space left"):
        writer.append(issued(1))
    with pytest.raises(OSError, match="no space left"):
        await writer.call_journal(lambda _: None)
    writer.close()
    assert list(BatchJournal(tmp_path / "journal.sqlite").events()) == []


async def test_a_failed_read_is_the_readers_alone_and_a_failed_file_ends_all_writing(tmp_path):
    writer = JournalWriter(BatchJournal(tmp_path / "journal.sqlite"))
    with pytest.raises(ZeroDivisionError):
        await writer.call_journal(lambda _: 1 / 0)
    writer.append(issued(0))
    await writer.flush()
    writer.post(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await writer.flush()
    with pytest.raises(ZeroDivisionError):
        writer.append(issued(1))
    writer.close()


async def test_what_waits_at_the_end_is_written(tmp_path):
    writer = JournalWriter(BatchJournal(tmp_path / "journal.sqlite"))
    writer.append(issued(0))
    writer.close()
    assert list(BatchJournal(tmp_path / "journal.sqlite").events()) == [issued(0)]
