"""OpenTelemetry traces of the requests that a client has sampled.

A client begins the trace of an episode and sends its position in it with each request (``traceparent``, W3C
Trace Context). Gateway and supervisor add a span each; the supervisor also adds the runner's, whose box has
no network. Without an endpoint nothing of OpenTelemetry is imported.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sandbox_service.telemetry import get_logger

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Span, SpanKind

    from sandbox_service.config import TelemetryConfig

logger = get_logger(__name__)

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED = 1
_EXPORT_S = 5.0
_FLUSH_S = 3.0
"""Time at the end in which spans that are left may still be sent."""
_QUEUE = 8192
_EXPORTER = "opentelemetry.exporter.otlp.proto.http"
MISSING = (
    "telemetry.otlp_endpoint needs OpenTelemetry; install it with: pip install 'training-sandbox[telemetry]'"
)


class Tracing:
    """Makes the spans of one part of the service, and sends them from a thread of its own.

    An endpoint that does not answer costs spans and nothing else.
    """

    def __init__(self, provider: TracerProvider, processor: BatchSpanProcessor) -> None:
        self._tracer = provider.get_tracer(__name__)
        self._processor = processor

    def begin_span(self, name: str, traceparent: str, attributes: Mapping[str, str]) -> Span | None:
        """Begin a span below the caller's; None if the request is not sampled or its header malformed."""
        from opentelemetry.trace import (
            NonRecordingSpan,
            SpanContext,
            SpanKind,
            TraceFlags,
            set_span_in_context,
        )

        found = _TRACEPARENT.fullmatch(traceparent)
        if found is None or not int(found[3], 16) & _SAMPLED:
            return None
        parent = SpanContext(int(found[1], 16), int(found[2], 16), True, TraceFlags(_SAMPLED))
        if not parent.is_valid:
            return None
        context = set_span_in_context(NonRecordingSpan(parent))
        span = self._tracer.start_span(name, context, SpanKind.SERVER, attributes)
        return span if span.is_recording() else None

    def begin_below(self, parent: Span, name: str, kind: SpanKind, start_ns: int | None = None) -> Span:
        """Begin a span below another one of this process, now or at a unix time in nanoseconds."""
        from opentelemetry.trace import set_span_in_context

        return self._tracer.start_span(name, set_span_in_context(parent), kind, start_time=start_ns)

    async def close(self) -> None:
        """Send what is left, within a bound."""
        # The processor's own bound is 30 s, for an endpoint that does not answer.
        sending = threading.Thread(target=self._processor.shutdown, name="last-spans", daemon=True)
        sending.start()
        await asyncio.to_thread(sending.join, _FLUSH_S)


def traceparent_of(span: Span) -> str:
    """Return the position of a span for the next part of the service."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def mark_failed(span: Span, code: str) -> None:
    """Note the error code with which an operation failed."""
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR, code)


def is_installed() -> bool:
    """Return whether the packages that send traces are installed."""
    try:
        return find_spec(_EXPORTER) is not None and find_spec("opentelemetry.sdk") is not None
    except ModuleNotFoundError:
        return False


def open_tracing(config: TelemetryConfig, service: str, instance: str = "") -> Tracing | None:
    """Return the tracing of a part of the service, named ``service`` in its spans; None without an endpoint.

    ``instance`` tells parts of one name apart. Raises ModuleNotFoundError if OpenTelemetry is not installed.
    """
    if config.otlp_endpoint is None:
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased

    exporter = OTLPSpanExporter(config.otlp_endpoint, timeout=_EXPORT_S)
    processor = BatchSpanProcessor(exporter, max_queue_size=_QUEUE)
    named = {"service.name": service, **({"service.instance.id": instance} if instance else {})}
    provider = TracerProvider(
        # Of the traces that clients have sampled; without a client's decision there is no trace.
        ParentBased(ALWAYS_OFF, remote_parent_sampled=TraceIdRatioBased(config.ratio)),
        Resource.create(named),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(processor)
    logger.info("tracing_started", service=service, ratio=config.ratio)
    return Tracing(provider, processor)
