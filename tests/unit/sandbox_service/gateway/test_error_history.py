"""Errors of the last hour, in buckets of five minutes."""

from sandbox_contract.problems import ErrorCode
from sandbox_service.gateway.error_history import BUCKET_S, ErrorHistory
from sandbox_service.gateway.exchange import HttpExchange
from sandbox_service.gateway.metrics import Metrics


class Clock:
    """A clock that a test sets."""

    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def test_errors_are_counted_by_class_in_the_part_of_the_hour_in_which_they_happen():
    clock = Clock(7200.0)
    history = ErrorHistory(clock)
    history.count("task")
    clock.now += BUCKET_S - 1
    history.count("task")
    clock.now += 1
    history.count("sandbox")
    counts = history.last_hour()
    assert len(counts) == 12
    assert list(counts)[-2:] == [7200.0, 7500.0]
    assert [counts[7200.0], counts[7500.0]] == [{"task": 2}, {"sandbox": 1}]
    assert not any(counts[begin] for begin in list(counts)[:-2])


def test_errors_of_an_hour_ago_are_gone_whether_or_not_others_followed():
    clock = Clock(0.0)
    history = ErrorHistory(clock)
    history.count("task")
    clock.now = 11 * BUCKET_S
    assert history.last_hour()[0.0] == {"task": 1}
    clock.now = 12 * BUCKET_S
    assert not any(history.last_hour().values())
    history.count("task")
    assert sum(counts.get("task", 0) for counts in history.last_hour().values()) == 1


def test_a_replica_counts_the_errors_of_its_answers_and_of_operations_in_batches():
    metrics = Metrics()
    for error in (None, ErrorCode.SANDBOX_FAILED):
        metrics.request_started()
        metrics.request_finished(HttpExchange("r", "POST", "/v1/step", {}, error=error))
        metrics.count_operation("step", error)
    (counts,) = (each for each in metrics.recent_errors().values() if each)
    assert counts == {"sandbox": 2}
