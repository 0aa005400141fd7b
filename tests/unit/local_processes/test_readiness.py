from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from local_processes.readiness import (
    NotReadyError,
    problem_detail,
    reachable_host,
    read_body,
    refusal,
    wait_until_ready,
)
from local_processes.waiting import Deadline
from tests.harness.probed_server import probed_server, set_dead_proxy


def within(timeout_s: float, already_s: float = 0.0) -> Deadline:
    return Deadline(time.monotonic() - already_s, timeout_s)


def no_check(_answer: str) -> None:
    pass


@pytest.fixture
def starting() -> Iterator[int]:
    """The port of a server that is not ready while a test lasts."""
    with probed_server(*[503] * 1000) as port:
        yield port


def test_it_waits_until_the_answer_is_200():
    with probed_server(503, 503) as port:
        wait_until_ready("127.0.0.1", port, within(30), no_check)


def test_past_the_deadline_it_tells_the_last_answer(starting):
    with pytest.raises(NotReadyError, match="HTTP 503: warming up"):
        wait_until_ready("127.0.0.1", starting, within(0), no_check)


def test_a_wait_that_began_late_tells_the_time_since_the_start(starting):
    with pytest.raises(NotReadyError, match=r"not ready after 1\d\d s: .*fleet\.start_timeout_s is 120"):
        wait_until_ready("127.0.0.1", starting, within(120, already_s=126.2), no_check)


def test_of_a_problem_document_the_detail_is_told():
    body = b'{"title": "No supervisor", "detail": "no supervisor answers", "code": "supervisor_unavailable"}'
    assert problem_detail(body) == "no supervisor answers"
    assert problem_detail(b"<html>") == "<html>"


def test_nobody_listening_is_told_as_well():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        with pytest.raises(NotReadyError, match="ConnectionRefusedError"):
            wait_until_ready("127.0.0.1", probe.getsockname()[1], within(0), no_check)


def test_a_failed_check_ends_the_wait(starting):
    def give_up(_answer: str) -> None:
        raise NotReadyError("the gateway did not start")

    with pytest.raises(NotReadyError, match="did not start"):
        wait_until_ready("127.0.0.1", starting, within(60), give_up)


def test_this_machine_is_not_asked_through_the_proxy_of_its_environment(monkeypatch):
    set_dead_proxy(monkeypatch)
    with probed_server() as port:
        assert read_body(f"http://127.0.0.1:{port}/readyz", 30) == b"warming up"


def test_a_server_that_is_not_ready_has_no_body(starting):
    assert read_body(f"http://127.0.0.1:{starting}/readyz", 30) is None


def test_neither_does_one_that_speaks_no_http():
    def greet(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=greet, args=(listener,))
        thread.start()
        assert read_body(f"http://127.0.0.1:{listener.getsockname()[1]}/readyz", 30) is None
        thread.join()


def test_a_refusal_is_the_status_with_its_detail_or_the_error():
    with probed_server(404) as port:
        assert refusal(f"http://127.0.0.1:{port}/readyz", 30) == "HTTP 404: warming up"
        assert refusal(f"http://127.0.0.1:{port}/readyz", 30) is None
    unknown = refusal("http://no-such-host.invalid/readyz", 30)
    assert unknown is not None
    assert unknown.startswith("gaierror: ")


@pytest.mark.parametrize(
    ("host", "reached"), [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.1", "10.0.0.1")]
)
def test_all_interfaces_are_reached_by_loopback(host, reached):
    assert reachable_host(host) == reached
