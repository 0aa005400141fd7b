"""Model endpoints that requests may name."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sandbox_service.config import AgentsConfig


@pytest.mark.parametrize(
    ("rules", "endpoint", "allowed"),
    [
        ((), "127.0.0.1:80", False),
        (("127.0.0.1:80",), "127.0.0.1:80", True),
        (("127.0.0.1:80",), "127.0.0.1:8080", False),
        (("127.0.0.1:80",), "localhost:80", False),
        (("Gateway.Internal:80",), "gateway.internal:80", True),
        (("a:80", "b:7000-7010"), "b:7010", True),
        (("a:80", "b:7000-7010"), "b:7011", False),
        (("127.0.0.1:*",), "127.0.0.1:65535", True),
        (("127.0.0.1:*",), "127.0.0.1:65536", False),
        (("127.0.0.1:*",), "127.0.0.1:0", False),
        (("127.0.0.1:*",), "127.0.0.10:80", False),
        (("[::1]:80",), "[::1]:80", True),
    ],
)
def test_an_endpoint_is_allowed_by_host_and_port(
    rules: tuple[str, ...], endpoint: str, allowed: bool
) -> None:
    assert AgentsConfig(model_endpoints=rules).allows(endpoint) is allowed


@pytest.mark.parametrize(
    "rule", ["host", "host:", ":80", "host:0", "host:9-8", "host:65536", "*:80", "http://host:80", "::1:80"]
)
def test_a_rule_that_is_no_endpoint_is_refused(rule: str) -> None:
    with pytest.raises(ValidationError):
        AgentsConfig(model_endpoints=(rule,))
