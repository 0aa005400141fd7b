import subprocess
import sys

import pytest

from sandbox_service.config import TelemetryConfig
from sandbox_service.tracing import open_tracing, traceparent_of

TRACE, SPAN = "a" * 32, "b" * 16


@pytest.fixture
async def tracing():
    tracing = open_tracing(TelemetryConfig(otlp_endpoint="http://127.0.0.1:9/v1/traces"), "test")
    yield tracing
    await tracing.close()


def test_without_an_endpoint_there_is_no_tracing_and_nothing_of_it_is_imported():
    assert open_tracing(TelemetryConfig(), "test") is None
    modules = "sandbox_service.gateway.app, sandbox_service.supervisor.core, sandbox_client"
    code = f"import {modules}, sys; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_span_is_below_the_one_that_the_caller_names(tracing):
    span = tracing.begin_span("gateway", f"00-{TRACE}-{SPAN}-01", {})
    version, trace, own, flags = traceparent_of(span).split("-")
    assert (version, trace, flags) == ("00", TRACE, "01")
    assert own != SPAN


@pytest.mark.parametrize(
    "position",
    [
        f"00-{TRACE}-{SPAN}-00",
        "",
        "00-x",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\u00ff",
    ],
    ids=["not sampled", "empty", "short", "no trace", "no span", "unknown version", "longer"],
)
def test_a_position_that_is_not_sampled_or_malformed_makes_no_span(tracing, position):
    assert tracing.begin_span("gateway", position, {}) is None
