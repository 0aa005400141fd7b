"""Prometheus metrics of one gateway replica, and the fleet's state at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0
from prometheus_client.registry import Collector

from sandbox_contract.problems import ERROR_SPECS, ErrorCode

if TYPE_CHECKING:
    from prometheus_client import Metric

    from sandbox_contract.inspection import PoolStats, SupervisorStats

    from .exchange import Exchange


METRICS_MEDIA_TYPE = CONTENT_TYPE_PLAIN_1_0_0
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_POOL = ("supervisor", "environment")
_BOX_STATES = ("starting", "idle", "busy", "resetting")
_GAUGES = {
    "instances": "Live instances",
    "queued": "Creates that wait for a box",
    "max_boxes": "Most boxes at once",
}
_TOTALS = {"started_total": "Boxes started", "destroyed_total": "Boxes destroyed"}


class Metrics:
    """Counters of this replica; labels are routes, codes and environments, never ids or tenants."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self._requests = Counter(
            "sandbox_gateway_requests", "HTTP requests", ["route", "code"], registry=registry
        )
        self._seconds = Histogram(
            "sandbox_gateway_request_seconds",
            "Time from request to answer",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._in_flight = Gauge("sandbox_gateway_in_flight", "Requests being served", registry=registry)
        self._waiting = Gauge(
            "sandbox_gateway_waiting", "Requests that wait for their tenant's turn", registry=registry
        )
        self._body_bytes = Gauge(
            "sandbox_gateway_body_bytes",
            "Bytes of request bodies being received or served",
            registry=registry,
        )
        self._wait_seconds = Histogram(
            "sandbox_gateway_wait_seconds",
            "Time that requests waited for their tenant's turn, of those that had to",
            buckets=_SECONDS,
            registry=registry,
        )
        self._operations = Counter(
            "sandbox_gateway_batch_operations",
            "Operations inside batches",
            ["operation", "outcome"],
            registry=registry,
        )
        self._errors = Counter(
            "sandbox_gateway_errors", "Errors told to callers", ["failure_class", "code"], registry=registry
        )
        self._counters: dict[tuple[str, str], Counter] = {}
        self._observers: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def begin(self) -> None:
        """A request came."""
        self._in_flight.inc()

    def watch(self, waiting: Callable[[], int], body_bytes: Callable[[], int]) -> None:
        """Take the requests that wait and the bytes of bodies from these functions at each scrape."""
        self._waiting.set_function(waiting)
        self._body_bytes.set_function(body_bytes)

    def waited(self, seconds: float) -> None:
        """A request got its turn after so long."""
        self._wait_seconds.observe(seconds)

    def finish(self, exchange: Exchange) -> None:
        """A request was answered, or abandoned."""
        self._in_flight.dec()
        key = (exchange.route, exchange.status)
        pair = self._observers.get(key)
        if pair is None:
            pair = (self._requests.labels(*map(str, key)), self._seconds.labels(exchange.route))
            self._observers[key] = pair
        pair[0].inc()
        pair[1].observe(exchange.elapsed_s)
        if exchange.error is not None:
            self._count_error(exchange.error)

    def operation_done(self, operation: str, error: ErrorCode | None) -> None:
        """An operation of a batch ended, well or with an error."""
        key = (operation, "ok" if error is None else error.value)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._operations.labels(*key)
        counter.inc()
        if error is not None:
            self._count_error(error)

    def _count_error(self, code: ErrorCode) -> None:
        self._errors.labels(ERROR_SPECS[code].failure_class.value, code.value).inc()

    def exposition(self, fleet: Sequence[SupervisorStats]) -> bytes:
        """The text that Prometheus reads: this replica's metrics, then the fleet's."""
        return generate_latest(self._registry) + generate_latest(_Fleet(fleet))


class _Fleet(Collector):
    """The fleet's pools, made anew for each scrape, so that pools that are gone leave no stale series."""

    def __init__(self, fleet: Sequence[SupervisorStats]) -> None:
        self._fleet = fleet

    def collect(self) -> Iterator[Metric]:
        name = "sandbox_fleet_supervisors"
        yield GaugeMetricFamily(name, "Supervisors that answered", value=len(self._fleet))
        boxes = GaugeMetricFamily(
            "sandbox_fleet_boxes", "Boxes by state", labels=[*_POOL, "sandbox", "state"]
        )
        for supervisor, pool in self._pools():
            for state in _BOX_STATES:
                labels = [supervisor, pool.environment, pool.sandbox, state]
                boxes.add_metric(labels, getattr(pool, state))
        yield boxes
        for attribute, text in _GAUGES.items():
            gauge = GaugeMetricFamily(f"sandbox_fleet_{attribute}", text, labels=_POOL)
            yield self._filled(gauge, attribute)
        for attribute, text in _TOTALS.items():
            counter = CounterMetricFamily(f"sandbox_fleet_boxes_{attribute}", text, labels=_POOL)
            yield self._filled(counter, attribute)

    def _filled(self, family: GaugeMetricFamily | CounterMetricFamily, attribute: str) -> Metric:
        for supervisor, pool in self._pools():
            family.add_metric([supervisor, pool.environment], getattr(pool, attribute))
        return family

    def _pools(self) -> Iterator[tuple[str, PoolStats]]:
        for supervisor in self._fleet:
            for pool in supervisor.pools:
                yield supervisor.name, pool
