"""The address of a node's cluster: known also after the name of its head is gone."""

import pytest

from deploy.cluster_address import ClusterAddress
from sandbox_service.config import ServiceConfig
from tests.harness.waiting import wait_until


class Names:
    """A name server whose names come and go."""

    def __init__(self, **known: str) -> None:
        self.known = dict(known)
        self.asked = 0

    def __call__(self, host: str) -> str:
        self.asked += 1
        if host not in self.known:
            raise OSError("name or service not known")
        return self.known[host]


def test_the_last_known_ip_address_stands_for_a_name_that_is_gone() -> None:
    names = Names(head="10.0.0.1")
    address = ClusterAddress("head:6379", names)
    with address.watched():
        wait_until(lambda: names.asked)
    names.known.clear()
    assert address.current() == "10.0.0.1:6379"


def test_a_head_that_was_replaced_is_found_at_its_new_address() -> None:
    names = Names(head="10.0.0.1")
    address = ClusterAddress("head:6379", names)
    assert address.current() == "10.0.0.1:6379"
    names.known["head"] = "fd00::2"
    assert address.current() == "[fd00::2]:6379"


def test_a_name_that_never_had_an_address_is_left_to_ray() -> None:
    assert ClusterAddress("head:6379", Names()).current() == "head:6379"


@pytest.mark.parametrize("name", [None, "auto", "local"])
def test_what_is_no_host_and_port_is_left_to_ray(name: str | None) -> None:
    assert ClusterAddress(name, Names(auto="10.0.0.1")).current() == name


def test_with_tls_the_name_is_kept_that_the_certificate_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USE_TLS", "1")
    assert ClusterAddress("head:6379", Names(head="10.0.0.1")).current() == "head:6379"


def test_the_configured_address_comes_before_the_one_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    assert ClusterAddress.of(ServiceConfig()).current() == "127.0.0.1:6379"
    configured = ServiceConfig.model_validate({"fleet": {"address": "127.0.0.2:6380"}})
    assert ClusterAddress.of(configured).current() == "127.0.0.2:6380"
