import socket

from local_processes.ports import free_port


def test_a_free_preference_is_kept_and_a_taken_one_replaced() -> None:
    port = free_port()
    assert free_port(port) == port
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        assert free_port(number) != number


def test_a_port_is_none_that_an_outgoing_connection_could_be_given() -> None:
    assert free_port() < 32_768
