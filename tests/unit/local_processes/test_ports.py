import socket

import pytest

from local_processes.ports import free_port


def test_a_free_preference_is_kept_and_a_taken_one_replaced() -> None:
    port = free_port()
    assert free_port(port) == port
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        assert free_port(number) != number


def test_a_port_is_none_that_an_outgoing_connection_could_be_given() -> None:
    assert free_port() < 32_768


def test_a_port_is_found_on_an_address_of_ipv6() -> None:
    try:
        taken = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with taken:
        number = taken.getsockname()[1]
        assert free_port(number, "::1") != number
