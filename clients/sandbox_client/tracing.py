"""OpenTelemetry traces: one for each episode, with a span for each of its calls.

    tracing = open_tracing("http://127.0.0.1:4318/v1/traces", ratio=0.01)
    async with AsyncSandboxClient(url, tracing=tracing) as client:
        ...
    tracing.close()

An episode begins with ``create_instance`` and ends with ``release_instance``; copies made by
``fork_instance`` are in the trace of the episode that they were copied from. Each request names its span to
the service (``traceparent``, W3C Trace Context), whose own spans of the request are below it. Needs the
packages of the extra ``telemetry``.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeVar

from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context

from .errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Tracer

    from ._calls import ApiCall

__all__ = ["EpisodeTracing", "open_tracing"]

ResultT = TypeVar("ResultT")

# Instances that are never released, such as those whose lease ended, must not fill the memory.
_MOST_EPISODES = 100_000
_CLOSE_S = 5.0


@dataclass
class FollowedCall(Generic[ResultT]):
    """A call with its span."""

    call: ApiCall[ResultT]
    """The call, which names the span to the service."""
    note_result: Callable[[ResultT], ResultT]
    """Takes the result and returns it."""


class EpisodeTracing:
    """Makes the spans of a client's calls. A client without one makes none and costs nothing for it."""

    def __init__(self, tracer: Tracer, shut_down: Callable[[], None] | None = None) -> None:
        """Use a tracer of any TracerProvider, whose sampler decides; ``shut_down`` is called by ``close``."""
        self._tracer = tracer
        self._shut_down = shut_down
        self._lock = threading.Lock()
        self._episodes: OrderedDict[str, Span] = OrderedDict()

    def close(self) -> None:
        """End the spans of episodes that were not released, and send what is left, within five seconds."""
        while self._episodes:
            self._episodes.popitem()[1].end()
        if self._shut_down is not None:
            self._shut_down()

    @contextmanager
    def follow(self, call: ApiCall[ResultT]) -> Iterator[FollowedCall[ResultT]]:
        """Trace a call in the block: below its episode, or below the current span if it is about none."""
        begins = call.verb == "create_instance"
        episode = self._begin_episode(call) if begins else self._episodes.get(call.instance_id)
        context = None if episode is None else set_span_in_context(episode)
        span = self._tracer.start_span(call.verb, context, SpanKind.CLIENT)

        def note_result(result: ResultT) -> ResultT:
            made = () if call.instances_made is None else call.instances_made(result)
            for instance_id in made:
                begun = episode if begins else self._begin_copy(episode)
                if begun is not None:
                    self._remember(instance_id, begun)
            return result

        try:
            yield FollowedCall(replace(call, traceparent=_traceparent(span)), note_result)
        except BaseException as error:
            _mark_failed(span, error)
            if begins and episode is not None:
                _mark_failed(episode, error)
                episode.end()
            raise
        finally:
            span.end()
            if call.verb == "release_instance":
                self._end_episode(call.instance_id)

    def _begin_episode(self, call: ApiCall[ResultT]) -> Span:
        span = self._tracer.start_span("episode")
        if span.is_recording():
            request = json.loads(call.body)
            for name in ("environment", "task_id"):
                span.set_attribute(f"sandbox.{name}", str(request.get(name, "")))
        return span

    def _begin_copy(self, source: Span | None) -> Span | None:
        if source is None:
            return None
        return self._tracer.start_span("episode", set_span_in_context(source))

    def _remember(self, instance_id: str, span: Span) -> None:
        span.set_attribute("sandbox.instance_id", instance_id)
        with self._lock:
            self._episodes[instance_id] = span
            forgotten = (
                self._episodes.popitem(last=False)[1] if len(self._episodes) > _MOST_EPISODES else None
            )
        if forgotten is not None:
            forgotten.end()

    def _end_episode(self, instance_id: str) -> None:
        with self._lock:
            span = self._episodes.pop(instance_id, None)
        if span is not None:
            span.end()


def open_tracing(endpoint: str, *, ratio: float = 1.0, service: str = "sandbox-client") -> EpisodeTracing:
    """Return a tracing that sends its spans to an OTLP/HTTP receiver, from a thread of its own.

    An endpoint that does not answer costs spans and nothing else; OpenTelemetry logs it. Headers, such as a
    token, are those of OTEL_EXPORTER_OTLP_HEADERS.

    Args:
        endpoint: the URL for traces, such as ``http://127.0.0.1:4318/v1/traces``.
        ratio: share of the episodes that are traced, 0 to 1, chosen by the trace's id.
        service: ``service.name`` of the spans.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    processor = BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=5.0))
    provider = TracerProvider(
        ParentBased(TraceIdRatioBased(ratio)),
        Resource.create({"service.name": service}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(processor)
    return EpisodeTracing(provider.get_tracer(__name__), lambda: _send_rest(processor))


def _send_rest(processor: BatchSpanProcessor) -> None:
    # The processor's own bound is 30 s, for an endpoint that does not answer.
    sending = threading.Thread(target=processor.shutdown, name="last-spans", daemon=True)
    sending.start()
    sending.join(_CLOSE_S)


def _traceparent(span: Span) -> str | None:
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _mark_failed(span: Span, error: BaseException) -> None:
    code = str(error.code) if isinstance(error, SandboxError) else type(error).__name__
    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR, code)
