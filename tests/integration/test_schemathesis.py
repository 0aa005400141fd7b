"""Requests made from the OpenAPI document: none may lead to a 500, and answers match what is documented."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sandbox_service.config import ServerConfig
from sandbox_service.gateway.app import build_app
from tests.fakes.backend import EchoBackend
from tests.harness.gateway import make_registry

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)

app = build_app(ServerConfig(), make_registry(), EchoBackend())
schema = schemathesis.openapi.from_asgi("/openapi.json", app)


@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_no_request_breaks_the_gateway(case: schemathesis.Case) -> None:
    response = case.call()
    case.validate_response(response, checks=CHECKS)
