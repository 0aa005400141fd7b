"""The learner's wait for room in the cluster: its end and its reason, and a warning of what is missing."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

from tests.harness.waiting import wait_until
from trainer.errors import TrainerError
from trainer.launch.learner_room import RoomDeadline, warned_of_missing_room

WORKER = {"CPU": 1.0, "learner": 0.001}
LIMIT_S = 300.0


class Waiting:
    """Has the workers start, fail to start and run, with the time that each takes."""

    def __init__(self, missing: str | None = None) -> None:
        self.now_s = 1000.0
        self.deadline = RoomDeadline(WORKER, LIMIT_S, now=lambda: self.now_s, missing=lambda _: missing)

    def attempt(self, takes_s: float = 60.0, failure: str | None = None) -> None:
        self.deadline.check_wait(attempt=True)
        self.now_s += takes_s
        self.deadline.check_wait(failure=failure)

    def run(self, takes_s: float) -> None:
        self.deadline.check_wait(attempt=True)
        self.deadline.end_wait()
        self.now_s += takes_s


def test_attempts_go_on_until_the_limit_and_the_error_says_what_no_node_has() -> None:
    waiting = Waiting("no node has 0.001 learner")
    for _ in range(4):
        waiting.attempt()
    with pytest.raises(
        TrainerError, match=r"within 300 s \(engine.start_timeout_s\): no node has 0.001 lear"
    ):
        waiting.attempt()


def test_an_attempt_that_begins_late_may_still_find_room() -> None:
    waiting = Waiting()
    waiting.attempt()
    waiting.now_s += LIMIT_S
    waiting.run(60)


def test_each_loss_of_a_node_may_be_waited_for_as_long() -> None:
    waiting = Waiting()
    for _ in range(3):
        for _ in range(4):
            waiting.attempt()
        waiting.run(10 * LIMIT_S)
    with pytest.raises(TrainerError, match="no free resources"):
        waiting.attempt(LIMIT_S)


def test_workers_that_found_room_and_do_not_start_are_not_said_to_have_none() -> None:
    with pytest.raises(TrainerError, match="the constructor failed"):
        Waiting().attempt(LIMIT_S, failure="the constructor failed")


def test_a_node_that_is_missing_is_warned_of_each_time_once(caplog: pytest.LogCaptureFixture) -> None:
    looks, seen = iter((None, "no node has GPUs", "no node has GPUs", None, "no node has GPUs")), []
    last = threading.Event()

    def missing(bundles: object) -> str | None:
        seen.append(bundles)
        found = next(looks, None)
        if len(seen) > 5:
            last.set()
        return found

    with warned_of_missing_room(WORKER, 300.0, look_s=0.001, missing=missing):
        wait_until(last.is_set)
    warned = [record.getMessage() for record in caplog.records]
    assert (
        warned
        == ["no node has GPUs, as the learner needs; waiting up to 300 s for one (engine.start_timeout_s)"]
        * 2
    )
    assert seen[0] == [WORKER]


def test_nodes_that_cannot_be_listed_are_looked_up_again(caplog: pytest.LogCaptureFixture) -> None:
    looks = []

    def missing(_: object) -> str | None:
        looks.append(None)
        if len(looks) == 1:
            raise ConnectionError("the head does not answer")
        return "no node has GPUs"

    with warned_of_missing_room(WORKER, 300.0, look_s=0.001, missing=missing):
        wait_until(lambda: len(looks) > 2)
    assert "no node has GPUs" in caplog.text
