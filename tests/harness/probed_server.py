"""An HTTP server of a test's own, as a readiness probe sees it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@contextmanager
def probed_server(*refusals: int, body: bytes = b"warming up") -> Iterator[int]:
    """Answer GETs with these statuses, one after another, and with 200 afterwards; yield the port.

    ``body`` is that of every answer.
    """
    left = list(refusals)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(left.pop(0) if left else 200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def set_dead_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a proxy for HTTP in the environment that reaches nothing, without an exception for loopback."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
