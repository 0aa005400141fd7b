"""Latencies and errors of a gateway replica, from its Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import Metric


_SECONDS = "sandbox_gateway_request_seconds"
_ERRORS = "sandbox_gateway_errors"
_OWN = "/console"
"""Routes of the console itself, which would hide those of the service."""
_VERBS = ("create_instance", "step", "evaluate", "release_instance", "fork_instance", "run_agent", "batch")


@dataclass(frozen=True, slots=True)
class RouteLatency:
    """The requests of one route since the replica started."""

    route: str
    count: int
    mean_s: float
    p50_s: float | None
    """None where the bucket has no upper bound."""
    p95_s: float | None
    p99_s: float | None


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """The errors of one code since the replica started."""

    failure_class: str
    code: str
    count: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests that a replica has served."""

    latencies: tuple[RouteLatency, ...]
    """The verbs first, then other routes by their number of requests."""
    errors: tuple[ErrorCount, ...]
    """The most frequent first."""


def traffic_of(families: Iterable[Metric]) -> Traffic:
    """Return the latencies and errors among a replica's metrics."""
    by_name = {family.name: family for family in families}
    errors = [
        ErrorCount(sample.labels["failure_class"], sample.labels["code"], round(sample.value))
        for sample in (by_name[_ERRORS].samples if _ERRORS in by_name else ())
        if sample.name.endswith("_total") and sample.value
    ]
    latencies = _latencies(by_name[_SECONDS]) if _SECONDS in by_name else []
    return Traffic(
        tuple(sorted(latencies, key=_order)),
        tuple(sorted(errors, key=lambda each: (-each.count, each.code))),
    )


def _latencies(family: Metric) -> list[RouteLatency]:
    buckets: dict[str, list[tuple[float, float]]] = {}
    sums: dict[str, float] = {}
    for sample in family.samples:
        route = sample.labels["route"]
        if route.startswith(_OWN):
            continue
        if sample.name.endswith("_bucket"):
            buckets.setdefault(route, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[route] = sample.value
    return [
        _latency(route, listed, sums.get(route, 0.0)) for route, listed in buckets.items() if listed[-1][1]
    ]


def _latency(route: str, buckets: list[tuple[float, float]], total_s: float) -> RouteLatency:
    count = buckets[-1][1]
    return RouteLatency(
        route, round(count), total_s / count, *(quantile(buckets, q) for q in (0.5, 0.95, 0.99))
    )


def quantile(buckets: list[tuple[float, float]], share: float) -> float | None:
    """Return a quantile of cumulative buckets (upper bound, count), interpolated within its bucket.

    None if it lies in the last bucket, which has no upper bound.
    """
    wanted = share * buckets[-1][1]
    lower, before = 0.0, 0.0
    for upper, count in buckets:
        if count >= wanted:
            if upper == float("inf"):
                return None
            return lower + (upper - lower) * (wanted - before) / max(count - before, 1.0)
        lower, before = upper, count
    return None


def _order(latency: RouteLatency) -> tuple[int, int]:
    name = latency.route.rpartition("/")[2]
    return (_VERBS.index(name) if name in _VERBS else len(_VERBS), -latency.count)
