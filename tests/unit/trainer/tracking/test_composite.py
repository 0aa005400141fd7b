import logging
import threading

import pytest

from tests.fakes.trackers import MemoryTracker
from trainer.tracking.composite import CompositeTracker


def test_all_are_told_and_closed():
    own, other = MemoryTracker(), MemoryTracker()
    both = CompositeTracker(own, [other])
    for step in range(100):
        both.log(step, {"a": 2.0})
    both.close()
    both.close()
    assert own.lines == other.lines == [(step, {"a": 2.0}) for step in range(100)]
    assert (own.closed, other.closed) == (2, 1)


def test_an_optional_tracker_that_fails_is_disabled_with_one_warning(caplog):
    own, broken, well = MemoryTracker(), MemoryTracker(fails_at=1), MemoryTracker()
    tracker = CompositeTracker(own, [broken, well])
    with caplog.at_level(logging.WARNING):
        for step in range(4):
            tracker.log(step, {"a": 0.0})
        tracker.close()
    assert [step for step, _ in broken.lines] == [0]
    assert [step for step, _ in well.lines] == [0, 1, 2, 3]
    assert caplog.text.count("MemoryTracker failed") == 1


def test_an_optional_tracker_that_does_not_answer_holds_up_neither_the_run_nor_its_end(caplog):
    answers = threading.Event()
    own, silent, well = MemoryTracker(), MemoryTracker(waits_for=answers), MemoryTracker()
    tracker = CompositeTracker(own, [silent, well], end_s=0.1)
    with caplog.at_level(logging.WARNING):
        for step in range(4):
            tracker.log(step, {"a": 0.0})
        assert [step for step, _ in own.lines] == [0, 1, 2, 3]
        tracker.close()
    answers.set()
    assert [step for step, _ in well.lines] == [0, 1, 2, 3]
    assert well.closed == 1
    assert caplog.text.count("MemoryTracker failed and was disabled: it did not take its last lines") == 1


def test_the_runs_own_record_may_not_fail():
    tracker = CompositeTracker(MemoryTracker(fails_at=0))
    with pytest.raises(RuntimeError, match="no connection"):
        tracker.log(0, {})
