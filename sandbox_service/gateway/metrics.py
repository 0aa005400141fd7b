"""Prometheus metrics of one gateway replica, and the fleet's state at the moment of a scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_1_0_0

from sandbox_service.contract.problems import ERROR_SPECS, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_service.contract.inspection import PoolStats, SupervisorStats

    from .exchange import Exchange

__all__ = ["METRICS_MEDIA_TYPE", "Metrics"]

METRICS_MEDIA_TYPE = CONTENT_TYPE_PLAIN_1_0_0
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_POOL = ["supervisor", "environment"]


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
        self._operations = Counter(
            "sandbox_gateway_batch_operations",
            "Operations inside batches",
            ["operation", "outcome"],
            registry=registry,
        )
        self._errors = Counter(
            "sandbox_gateway_errors", "Errors told to callers", ["failure_class", "code"], registry=registry
        )
        self._observers: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def begin(self) -> None:
        """A request came."""
        self._in_flight.inc()

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
        self._operations.labels(operation, "ok" if error is None else error.value).inc()
        if error is not None:
            self._count_error(error)

    def _count_error(self, code: ErrorCode) -> None:
        self._errors.labels(ERROR_SPECS[code].failure_class.value, code.value).inc()

    def exposition(self, fleet: Sequence[SupervisorStats]) -> bytes:
        """The text that Prometheus reads: this replica's metrics, then the fleet's."""
        return generate_latest(self._registry) + generate_latest(_fleet_registry(fleet))


def _fleet_registry(fleet: Sequence[SupervisorStats]) -> CollectorRegistry:
    """A registry of its own for each scrape: pools that are gone leave no stale series."""
    registry = CollectorRegistry()
    up = Gauge("sandbox_fleet_supervisors", "Supervisors that answered", registry=registry)
    up.set(len(fleet))
    boxes = Gauge("sandbox_fleet_boxes", "Boxes by state", [*_POOL, "sandbox", "state"], registry=registry)
    gauges = {
        name: Gauge(f"sandbox_fleet_{name}", text, _POOL, registry=registry)
        for name, text in (
            ("instances", "Live instances"),
            ("queued", "Creates that wait for a box"),
            ("max_boxes", "Most boxes at once"),
        )
    }
    totals = {
        name: Counter(f"sandbox_fleet_boxes_{name}", text, _POOL, registry=registry)
        for name, text in (("started", "Boxes started"), ("destroyed", "Boxes destroyed"))
    }
    for supervisor in fleet:
        for pool in supervisor.pools:
            labels = (supervisor.name, pool.environment)
            for state, count in _states(pool).items():
                boxes.labels(*labels, pool.sandbox, state).set(count)
            gauges["instances"].labels(*labels).set(pool.instances)
            gauges["queued"].labels(*labels).set(pool.queued)
            gauges["max_boxes"].labels(*labels).set(pool.max_boxes)
            totals["started"].labels(*labels).inc(pool.started_total)
            totals["destroyed"].labels(*labels).inc(pool.destroyed_total)
    return registry


def _states(pool: PoolStats) -> dict[str, int]:
    return {"starting": pool.starting, "idle": pool.idle, "busy": pool.busy, "resetting": pool.resetting}
