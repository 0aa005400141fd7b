"""Answers of this machine: what `serve` refuses, `doctor` knows before."""

import json
import socket

import pytest

from sandbox_service.config.reading import read_config
from sandbox_service.gateway.openapi import SERVICE_TITLE
from service_cli.doctor.local_machine import LocalMachine
from tests.harness.probed_server import probed_server, set_dead_proxy


@pytest.fixture
def rays_files(tmp_path, monkeypatch):
    """The folder in which Ray keeps the address of its latest cluster on this machine."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    folder = tmp_path / "ray"
    folder.mkdir()
    return folder


def machine(*commands: list[str]) -> LocalMachine:
    """This machine with these commands as its processes."""
    return LocalMachine(lambda: commands)


def test_without_a_cluster_on_this_machine_auto_is_refused(rays_files) -> None:
    assert machine().try_connecting("auto") == "no Ray cluster was started on this machine"


@pytest.mark.parametrize("variable", [None, "", "auto"])
def test_auto_is_the_latest_cluster_of_this_machine(rays_files, monkeypatch, variable) -> None:
    if variable is not None:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    with socket.create_server(("127.0.0.1", 0)) as head:
        (rays_files / "ray_current_cluster").write_text(f"127.0.0.1:{head.getsockname()[1]}")
        assert machine().try_connecting("auto") is None
    assert "refused" in machine().try_connecting("auto")


@pytest.mark.parametrize("file", ["", "127.0.0.1:1"], ids=["no file", "a file of an earlier cluster"])
def test_auto_is_a_cluster_that_runs_on_this_machine(rays_files, file) -> None:
    (rays_files / "ray_current_cluster").write_text(file)
    with socket.create_server(("127.0.0.1", 0)) as head:
        raylet = ["/site-packages/ray/raylet", f"--gcs-address=127.0.0.1:{head.getsockname()[1]}", "--head"]
        assert machine(["init"], raylet).try_connecting("auto") is None
    assert "refused" in machine(["init"], raylet).try_connecting("auto")


def test_a_named_cluster_of_the_environment_is_the_only_one_tried(rays_files, monkeypatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as head:
        (rays_files / "ray_current_cluster").write_text(f"127.0.0.1:{head.getsockname()[1]}")
        assert "refused" in machine().try_connecting("auto")


def test_an_address_without_a_port_is_refused() -> None:
    assert LocalMachine().try_connecting("10.0.0.1") == "10.0.0.1 is not an address such as 10.0.0.1:6379"


def test_a_service_of_this_machine_is_found_in_spite_of_a_proxy(monkeypatch) -> None:
    set_dead_proxy(monkeypatch)
    with probed_server(body=json.dumps({"service": SERVICE_TITLE, "version": "1"}).encode()) as port:
        assert LocalMachine().find_service(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize(
    "body",
    [b"OK", b"<html>Grafana</html>", b'"OK"', b'{"service": "grafana"}', b"{}", b"\xff\xfe", b"[" * 60_000],
    ids=["OK", "HTML", "a text", "another name", "no name", "no text", "a deep list"],
)
def test_another_program_that_answers_is_no_service(body) -> None:
    with probed_server(body=body) as port:
        assert not LocalMachine().find_service(f"http://127.0.0.1:{port}")


def test_what_refuses_or_does_not_answer_is_no_service() -> None:
    with probed_server(*[503] * 9) as port:
        assert not LocalMachine().find_service(f"http://127.0.0.1:{port}")
    assert not LocalMachine().find_service(f"http://127.0.0.1:{port}")


def test_settings_that_serve_accepts_are_accepted() -> None:
    assert set(LocalMachine().try_settings(read_config()).values()) == {None}


@pytest.mark.parametrize(
    ("words", "name", "reason"),
    [
        (["fleet.node_resource=sandbox_node"], "fleet", "set fleet.address"),
        (["agents.packages.mine=/nonexistent"], "agents", "agents.packages.mine: /nonexistent"),
        *(
            ([f"telemetry.otlp_endpoint={url}"], "telemetry", "http:// or https:// and a host")
            for url in (
                "localhost:4318",
                "otel/v1/traces",
                "grpc://otel:4317",
                "http://:4318",
                "http://[otel",
            )
        ),
        (
            [f"fleet.tls_{each}=/nonexistent/{each}.pem" for each in ("certificate", "key", "authority")],
            "tls",
            "/nonexistent/certificate.pem cannot be read",
        ),
    ],
    ids=[
        "a mark without a cluster",
        "packages that are not there",
        "traces without a scheme",
        "traces by a path",
        "traces over gRPC",
        "traces without a host",
        "traces to no URL",
        "TLS without files",
    ],
)
def test_settings_that_serve_refuses_are_named_with_the_reason(words, name, reason) -> None:
    reasons = LocalMachine().try_settings(read_config(None, words))
    refused = {each: why for each, why in reasons.items() if why}
    assert list(refused) == [name]
    assert reason in refused[name]
