"""Settings that keep the service from starting, and those with which a part of it does nothing."""

from pathlib import Path

import pytest

from sandbox_service.config.reading import read_config
from service_cli.doctor.checks.settings import check_settings
from service_cli.doctor.findings import Status
from tests.fakes.machine import FakeMachine

KEY = f'server.api_keys={{{"0" * 64} = "ada"}}'


def findings_of(*words: str, machine: FakeMachine | None = None):
    found = check_settings(read_config(None, list(words)), machine or FakeMachine())
    return {each.check: each for each in found if each.status is not Status.OK}


@pytest.mark.parametrize("url", ["http://otel:4318", "https://otel/"])
def test_traces_for_a_url_without_a_path_are_warned_of(url) -> None:
    (finding,) = findings_of(f"telemetry.otlp_endpoint={url}").values()
    assert finding.status is Status.WARNING
    assert "/v1/traces" in finding.fix


def test_traces_for_a_url_with_a_path_and_a_refused_url_have_no_warning() -> None:
    assert findings_of("telemetry.otlp_endpoint=http://otel:4318/v1/traces") == {}
    refusing = FakeMachine(refusals={"telemetry": "telemetry.otlp_endpoint is no URL"})
    assert set(findings_of("telemetry.otlp_endpoint=http://[otel", machine=refusing)) == {"telemetry"}


@pytest.mark.parametrize(
    ("words", "tenant", "fix"),
    [
        (["server.console_runs={ada = '/runs'}"], "ada", "local"),
        ([KEY, "server.console_runs={local = '/runs'}"], "local", "keys new"),
    ],
    ids=["no keys", "another tenant's key"],
)
def test_runs_of_a_tenant_without_a_key_are_warned_of(words, tenant, fix) -> None:
    finding = findings_of(*words)["tenants of runs"]
    assert finding.status is Status.WARNING
    assert finding.found.endswith(tenant)
    assert fix in finding.fix


def test_runs_that_cannot_be_listed_are_warned_of() -> None:
    machine = FakeMachine(closed=frozenset({Path("/closed")}))
    finding = findings_of("server.console_runs={local = '/closed'}", machine=machine)["folders of runs"]
    assert finding.status is Status.WARNING
    assert "/closed" in finding.found


def test_runs_that_can_be_listed_by_a_tenant_with_a_key_have_no_warning() -> None:
    assert findings_of("server.console_runs={local = '/runs'}") == {}
    assert findings_of(KEY, "server.console_runs={ada = '/runs'}") == {}
