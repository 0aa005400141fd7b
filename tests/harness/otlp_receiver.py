"""A receiver of traces over OTLP/HTTP, as a collector is one."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    """A span as it arrived."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, str]
    failed: bool


class OtlpReceiver:
    """The spans that arrived at ``endpoint``."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.spans: list[ReceivedSpan] = []

    def named(self, name: str) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == name]

    def path_of(self, span: ReceivedSpan) -> list[str]:
        """The names from the trace's first span down to this one."""
        by_id = {each.span_id: each for each in self.spans}
        names = [span.name]
        while span.parent_id:
            span = by_id[span.parent_id]
            names.append(span.name)
        return names[::-1]

    def receive(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for group in request.resource_spans:
            resource = {each.key: each.value.string_value for each in group.resource.attributes}
            for scope in group.scope_spans:
                self.spans += [
                    ReceivedSpan(
                        resource["service.name"],
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        {each.key: each.value.string_value for each in span.attributes},
                        span.status.code == 2,
                    )
                    for span in scope.spans
                ]


@contextmanager
def otlp_receiver() -> Iterator[OtlpReceiver]:
    """Serve on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.receive(gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = OtlpReceiver(f"http://127.0.0.1:{server.server_port}/v1/traces")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
