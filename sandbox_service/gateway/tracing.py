"""The gateway's span of a request, below the client's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_service.tracing import mark_failed, traceparent_of

if TYPE_CHECKING:
    from sandbox_service.tracing import Tracing

    from .exchange import HttpExchange


def begin_span(tracing: Tracing, exchange: HttpExchange) -> None:
    """Begin the span of a request that its client has sampled; the supervisor's is below it."""
    given = exchange.headers.get(b"traceparent")
    if given is None:
        return
    attributes = {"http.request.method": exchange.method, "sandbox.request_id": exchange.request_id}
    exchange.span = tracing.begin_span("gateway", given.decode("latin-1"), attributes)
    if exchange.span is not None:
        exchange.traceparent = traceparent_of(exchange.span)


def end_span(exchange: HttpExchange) -> None:
    """End the span with the outcome of the request."""
    span = exchange.span
    assert span is not None
    span.update_name(f"gateway {exchange.route}")
    span.set_attribute("http.route", exchange.route)
    span.set_attribute("http.response.status_code", exchange.status)
    span.set_attribute("sandbox.tenant", exchange.tenant)
    if exchange.instance_id is not None:
        span.set_attribute("sandbox.instance_id", exchange.instance_id)
    if exchange.error is not None:
        mark_failed(span, exchange.error.value)
    span.end()
