"""Latencies and errors of a gateway replica, from its Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from .search_form import SEARCH

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
class ErrorBar:
    """The errors of one class in a few minutes."""

    count: int
    height: float
    """In percent of the most that any class had in as long."""


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """The errors of one class over the last hour."""

    failure_class: str
    total: int
    bars: tuple[ErrorBar, ...]
    """One for each time, in order."""
    episodes_url: str
    """The search for episodes that began in that hour and have a failure of the class."""


@dataclass(frozen=True, slots=True)
class RecentErrors:
    """The errors of the last hour."""

    times: tuple[str, ...]
    """The times at which the parts of the hour begin, in UTC."""
    classes: tuple[ErrorClass, ...]
    """The most frequent first."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests that a replica has served."""

    latencies: tuple[RouteLatency, ...]
    """The verbs first, then other routes by their number of requests."""
    errors: tuple[ErrorCount, ...]
    """The most frequent first."""
    recent: RecentErrors


def traffic_of(families: Iterable[Metric], recent: Mapping[float, Mapping[str, int]]) -> Traffic:
    """Return the latencies and errors among a replica's metrics; ``recent`` has its last errors by time."""
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
        recent_errors(recent),
    )


def recent_errors(counts: Mapping[float, Mapping[str, int]]) -> RecentErrors:
    """Return the errors by class over time, from counts by the unix time at which each part begins."""
    names = {name for each in counts.values() for name in each}
    most = max((count for each in counts.values() for count in each.values()), default=0)
    moments = [datetime.fromtimestamp(begin, UTC) for begin in counts]
    since = min(moments).strftime("%Y-%m-%dT%H:%M") if moments else ""
    classes = [
        ErrorClass(
            failure_class=name,
            total=sum(each.get(name, 0) for each in counts.values()),
            bars=tuple(_error_bar(each.get(name, 0), most) for each in counts.values()),
            episodes_url=f"{SEARCH}?{urlencode({'failure': name, 'since': since})}",
        )
        for name in names
    ]
    return RecentErrors(
        tuple(moment.strftime("%H:%M") for moment in moments),
        tuple(sorted(classes, key=lambda each: (-each.total, each.failure_class))),
    )


def _error_bar(count: int, most: int) -> ErrorBar:
    return ErrorBar(count, round(100 * count / most, 1) if most else 0.0)


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
