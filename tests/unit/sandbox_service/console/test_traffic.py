"""Latencies and errors from a replica's metrics."""

import pytest

from sandbox_contract.problems import ErrorCode
from sandbox_service.console.traffic import quantile, recent_errors, traffic_of
from sandbox_service.gateway.exchange import HttpExchange
from sandbox_service.gateway.metrics import Metrics


def served(metrics, route, error=None):
    """A request of a route that was answered."""
    metrics.request_started()
    metrics.request_finished(HttpExchange("r", "POST", route, {}, route=route, status=200, error=error))


def test_verbs_come_first_and_the_consoles_own_requests_do_not_count():
    metrics = Metrics()
    for route in ("/v1/stats", "/console/episodes", "/v1/evaluate", "/v1/step", "/v1/stats"):
        served(metrics, route)
    routes = [(each.route, each.count) for each in traffic_of(metrics.collect_families(), {}).latencies]
    assert routes == [("/v1/step", 1), ("/v1/evaluate", 1), ("/v1/stats", 2)]


def test_errors_have_their_class_the_most_frequent_first():
    metrics = Metrics()
    for code in (ErrorCode.QUEUE_FULL, ErrorCode.SANDBOX_FAILED, ErrorCode.SANDBOX_FAILED):
        served(metrics, "/v1/step", code)
    errors = traffic_of(metrics.collect_families(), {}).errors
    found = [(each.failure_class, each.code, each.count) for each in errors]
    assert found == [("sandbox", "sandbox_failed", 2), ("capacity", "queue_full", 1)]


@pytest.mark.parametrize(
    ("share", "value"),
    [(0.5, 0.75), (0.25, 0.5), (0.8, None)],
    ids=["between", "at a bound", "in the last bucket"],
)
def test_a_quantile_is_interpolated_within_its_bucket(share, value):
    assert quantile([(0.5, 1.0), (1.0, 3.0), (float("inf"), 4.0)], share) == value


def test_errors_over_time_have_a_bar_for_each_part_on_one_scale_the_most_frequent_class_first():
    recent = recent_errors({0.0: {"task": 1}, 300.0: {}, 600.0: {"task": 1, "sandbox": 4}})
    assert recent.times == ("00:00", "00:05", "00:10")
    shown = [(each.failure_class, each.total, [bar.height for bar in each.bars]) for each in recent.classes]
    assert shown == [("sandbox", 4, [0, 0, 100]), ("task", 2, [25, 0, 25])]


def test_a_class_of_errors_leads_to_the_episodes_of_the_hour_that_failed_so():
    (capacity,) = recent_errors({7200.0: {"capacity": 1}, 7500.0: {}}).classes
    assert capacity.episodes_url == "/console/episodes?failure=capacity&since=1970-01-01T02%3A00"


def test_an_hour_without_errors_has_no_classes():
    assert recent_errors({0.0: {}, 300.0: {}}).classes == ()
