"""Requests made from the OpenAPI document: the gateway agrees with it on which are valid, and how it answers.

``use_after_free``, ``ensure_resource_availability`` and ``object_level_authorization`` are left out:
they need sequences of requests, which ``test_stateful_operations`` makes.
"""

from __future__ import annotations

import json

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.transport import Response
from schemathesis.generation.meta import TestPhase
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    ignored_auth,
    missing_required_header,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from sandbox_service.config import ServerConfig
from sandbox_service.environments.echo.box.world import EchoWorld
from sandbox_service.gateway.app import build_app
from sandbox_service.runner.world import Context
from tests.fakes.backend import EchoBackend, Episode
from tests.harness.gateway import digest, make_registry

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    missing_required_header,
    unsupported_method,
    allow_header_conformance,
)
REFUSED = ["400", "405", "413", "415", "422"]
"""Statuses of invalid requests. 401 and 403 are no answer to the rest of a request, nor is 404."""
SERVED = ["2xx", "404", "409", "410"]
"""Statuses of valid requests; names and states of what they are about are not in the document."""
CONFIG = {
    # A service without keys refuses the host of the test client's default address.
    "base-url": "http://localhost",
    "checks": {
        "negative_data_rejection": {"expected-statuses": REFUSED},
        "positive_data_acceptance": {"expected-statuses": SERVED},
    },
    "operations": [
        {
            # This protocol answers 400 for unknown names.
            "include-tag": "compatibility",
            "checks": {"positive_data_acceptance": {"expected-statuses": [*SERVED, "400"]}},
        }
    ],
}
KEY = {"Authorization": "Bearer secret"}
LIVE = "live"
CREATES = ("/v1/create_instance", "/create")
# The fake gives this environment no parameters, so that any are right.
KNOWN = {"environment": "tools", "env_type": "tools", "sandbox_type": "tools", "task_id": "echo-endless"}

backend = EchoBackend()
open_app = build_app(ServerConfig(), make_registry(), backend)
open_schema = schemathesis.openapi.from_asgi(
    "/openapi.json", open_app, config=SchemathesisConfig.from_dict(CONFIG)
)
locked_app = build_app(ServerConfig(api_keys={digest("secret"): "a"}), make_registry(), backend)
locked_schema = schemathesis.openapi.from_asgi(
    "/openapi.json", locked_app, config=SchemathesisConfig.from_dict(CONFIG)
)
derandomized = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@open_schema.parametrize()
@settings(derandomized, max_examples=25)
def test_no_request_breaks_the_gateway(case: schemathesis.Case) -> None:
    start_live_instance("local")
    if case.meta.generation.mode.is_positive:
        agree_on_key(case)
        if case.meta.phase.name is TestPhase.COVERAGE:
            name_what_exists(case)
    response = case.call()
    excluded = [negative_data_rejection] if refused_in_results(case, response) else []
    case.validate_response(response, checks=[*CHECKS], excluded_checks=excluded)


@locked_schema.parametrize()
@settings(derandomized, max_examples=3, phases=[Phase.generate])
def test_no_request_is_served_without_the_key_that_its_operation_needs(case: schemathesis.Case) -> None:
    start_live_instance("a")
    if case.meta.generation.mode.is_positive:
        agree_on_key(case)
        name_what_exists(case)
    response = case.call(headers=KEY)
    case.validate_response(response, checks=[ignored_auth], headers=KEY)


def start_live_instance(tenant: str) -> None:
    """Have one live instance and nothing else, whatever earlier requests did."""
    backend.forget()
    world = EchoWorld({"prompt": "Say something.", "steps": 1_000_000}, Context(LIVE, 0, {}))
    created = {"instance_id": LIVE, "observation": {"messages": list(world.start().messages)}}
    files = {"notes.txt": b"hello"}
    backend.episodes[LIVE] = Episode("echo", "echo-endless", tenant, world, files=files, created=created)


def agree_on_key(case: schemathesis.Case) -> None:
    """Give header and body one idempotency key, which no schema can ask for."""
    key = case.body.get("idempotency_key") if isinstance(case.body, dict) else None
    if key is not None and "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = key


def name_what_exists(case: schemathesis.Case) -> None:
    """Have a request name things that exist, so that it is carried out."""
    if isinstance(case.body, dict):
        known = KNOWN if case.path in CREATES else {**KNOWN, "instance_id": LIVE}
        texts = {name for name, value in case.body.items() if isinstance(value, str)}
        case.body.update({name: value for name, value in known.items() if name in texts})
    named = {"instance_id": LIVE, "path": "notes.txt"}
    case.path_parameters.update({name: named[name] for name in case.path_parameters})


def refused_in_results(case: schemathesis.Case, response: Response) -> bool:
    """Return whether a batch has refused an operation, which the answer's own status does not tell."""
    if case.path != "/v1/batch" or response.status_code != 200:
        return False
    return any(result["status"] in (400, 422) for result in json.loads(response.content)["results"])
