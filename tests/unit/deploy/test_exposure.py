"""The reach of a service, by the address that Serve listens on."""

from __future__ import annotations

import pytest

from deploy.exposure import ExposureError, check_reach, listening_on
from sandbox_service.config import ServiceConfig


def config(**tree: object) -> ServiceConfig:
    return ServiceConfig.model_validate(tree)


def test_process_sandboxes_are_not_served_to_other_machines_whatever_was_asked_for():
    process = {"kind": "process"}
    with pytest.raises(ExposureError, match="process sandboxes are not a security boundary"):
        check_reach(config(server={"host": "0.0.0.0", "insecure": True}, sandbox=process))
    check_reach(config(server={"host": "0.0.0.0", "insecure": True}, sandbox={"kind": "docker"}))
    check_reach(config(sandbox=process))


@pytest.mark.parametrize("kind", ["auto", "docker", "process"])
def test_the_address_that_serve_listens_on_is_the_one_that_is_checked(kind: str):
    with pytest.raises(ExposureError, match=r"0\.0\.0\.0 can be reached from other machines"):
        listening_on(config(sandbox={"kind": kind}), "0.0.0.0", 8080)


def test_the_service_has_the_address_of_serve():
    served = listening_on(config(), "127.0.0.2", 9000).server
    assert (served.host, served.port) == ("127.0.0.2", 9000)


@pytest.mark.parametrize("server", [{"host": "127.0.0.1"}, {"port": 8081}])
def test_another_address_than_serves_is_refused(server: dict[str, object]):
    with pytest.raises(ExposureError, match=r"Ray Serve listens on 127\.0\.0\.2:8080"):
        listening_on(config(server=server), "127.0.0.2", 8080)
    listening_on(config(server={"port": 8080}), "127.0.0.2", 8080)


def test_a_service_that_joins_a_cluster_does_not_take_over_an_address_silently():
    with pytest.raises(ExposureError, match=r"but Ray Serve listens on 0\.0\.0\.0:8080"):
        listening_on(config(), "0.0.0.0", 8080, exactly=True)
