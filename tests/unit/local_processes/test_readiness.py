from __future__ import annotations

import http.server
import socket
import threading
import time

import pytest

from local_processes.readiness import NotReadyError, problem_detail, reachable_host, wait_until_ready
from local_processes.waiting import Deadline


@pytest.fixture
def ready_after():
    """A server that answers /readyz with 503 so many times, and with 200 afterwards."""
    servers = []

    def start(refusals: int) -> int:
        class Handler(http.server.BaseHTTPRequestHandler):
            left = refusals

            def do_GET(self) -> None:
                status = 503 if Handler.left else 200
                Handler.left -= bool(Handler.left)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(b"warming up")

            def log_message(self, *args: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        servers.append((server, thread))
        return server.server_address[1]

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


def within(timeout_s: float, already_s: float = 0.0) -> Deadline:
    return Deadline(time.monotonic() - already_s, timeout_s)


def no_check(_answer: str) -> None:
    pass


def test_it_waits_until_the_answer_is_200(ready_after):
    wait_until_ready("127.0.0.1", ready_after(2), within(30), no_check)


def test_past_the_deadline_it_tells_the_last_answer(ready_after):
    with pytest.raises(NotReadyError, match="HTTP 503: warming up"):
        wait_until_ready("127.0.0.1", ready_after(1000), within(0), no_check)


def test_a_wait_that_began_late_tells_the_time_since_the_start(ready_after):
    with pytest.raises(NotReadyError, match=r"not ready after 1\d\d s: .*fleet\.start_timeout_s is 120"):
        wait_until_ready("127.0.0.1", ready_after(1000), within(120, already_s=126.2), no_check)


def test_of_a_problem_document_the_detail_is_told():
    body = b'{"title": "No supervisor", "detail": "no supervisor answers", "code": "supervisor_unavailable"}'
    assert problem_detail(body) == "no supervisor answers"
    assert problem_detail(b"<html>") == "<html>"


def test_nobody_listening_is_told_as_well():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with pytest.raises(NotReadyError, match="ConnectionRefusedError"):
            wait_until_ready("127.0.0.1", probe.getsockname()[1], within(0), no_check)


def test_a_failed_check_ends_the_wait(ready_after):
    def give_up(_answer: str) -> None:
        raise NotReadyError("the gateway did not start")

    with pytest.raises(NotReadyError, match="did not start"):
        wait_until_ready("127.0.0.1", ready_after(1000), within(60), give_up)


@pytest.mark.parametrize(
    ("host", "reached"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.1", "10.0.0.1")]
)
def test_all_interfaces_are_reached_by_loopback(host, reached):
    assert reachable_host(host) == reached
