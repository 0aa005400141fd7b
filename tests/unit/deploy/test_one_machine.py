"""The files for one machine: deploy/compose and deploy/systemd."""

import configparser
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from sandbox_service.config import ServiceConfig
from service_cli.doctor.checks.contents import check_accelerators
from service_cli.doctor.findings import Status, worst
from tests.fakes.machine import FakeMachine, unavailable
from tests.harness.probed_server import probed_server, set_dead_proxy

DEPLOY = Path(__file__).parents[3] / "deploy"
DOCKERFILE = DEPLOY.parent / "docker" / "service.Dockerfile"
COMPOSE = DEPLOY / "compose"
SERVICES = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
EXAMPLE = dict(
    line.split("=", 1)
    for line in (COMPOSE / "example.env").read_text().splitlines()
    if line and not line.startswith("#")
)
PROVISIONING = "/etc/grafana/provisioning/"
VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?P<default>:-[^}]*)?(?P<required>:\?[^}]*)?\}")


def variables():
    return {found["name"]: found for found in VARIABLE.finditer((COMPOSE / "compose.yaml").read_text())}


def test_every_variable_has_a_default_or_an_error_that_names_it() -> None:
    for name, found in variables().items():
        assert found["default"] or name in found["required"]


def test_passwords_have_no_default_and_the_example_leaves_them_empty() -> None:
    required = {name for name, found in variables().items() if found["required"]}
    assert required == {"POSTGRES_PASSWORD", "GRAFANA_PASSWORD", "DOCKER_GROUP"}
    assert {name for name, value in EXAMPLE.items() if not value} == required
    assert EXAMPLE.keys() <= variables().keys()


def test_ports_are_open_on_loopback_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.split(":-")[1].startswith("127.0.0.1:") for port in published)
    assert "ports" not in SERVICES["postgres"]


def test_no_container_gains_rights() -> None:
    for service in SERVICES.values():
        assert "no-new-privileges:true" in service["security_opt"]
        assert not service.get("privileged")
    assert SERVICES["service"]["cap_drop"] == ["ALL"]
    assert SERVICES["service"]["read_only"] is True


def test_an_image_of_a_registry_has_a_version_and_the_digest_of_its_content() -> None:
    images = {name: VARIABLE.fullmatch(service["image"])["default"] for name, service in SERVICES.items()}
    assert images.pop("service") == ":-training-sandbox:0.1.0"
    assert images
    for image in images.values():
        assert re.fullmatch(r":-[\w/]+:v?\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}", image)


def test_the_example_of_a_configuration_fits_the_containers() -> None:
    config = ServiceConfig.model_validate(tomllib.loads((COMPOSE / "example.service.toml").read_text()))
    assert config.server.host == "0.0.0.0"
    assert str(config.sandbox.state_dir) == EXAMPLE["SANDBOX_STATE"]
    assert config.store.url.endswith("@postgres/" + SERVICES["postgres"]["environment"]["POSTGRES_DB"])


def test_the_container_gets_the_time_in_which_the_service_stops() -> None:
    config = ServiceConfig.model_validate(tomllib.loads((COMPOSE / "example.service.toml").read_text()))
    allowed_s = int(SERVICES["service"]["stop_grace_period"].removesuffix("s"))
    assert allowed_s >= config.deadline.drain_s + config.deadline.release_s + 60
    page = (DEPLOY.parent / "docs" / "operations" / "one_machine.md").read_text()
    assert f"`deadline.drain_s` ({config.deadline.drain_s:g} s) to finish" in page


def test_files_that_containers_mount_are_there_or_are_the_operators() -> None:
    mounted = [
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if volume.startswith(".")
    ]
    missing = {name for name in mounted if not (COMPOSE / name).exists()}
    assert missing == {"./service.toml", "./metrics.key"}


def test_prometheus_reads_the_metrics_of_the_service_with_a_key_and_the_rules() -> None:
    config = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    # The rules in deploy/observability select this job.
    assert job["job_name"] == "sandbox-service"
    mounts = SERVICES["prometheus"]["volumes"]
    assert config["rule_files"] == ["alerts.yaml"]
    assert "../observability/alerts.yaml:/etc/prometheus/alerts.yaml:ro" in mounts
    assert job["static_configs"] == [{"targets": ["service:8080"]}]
    assert job["authorization"]["credentials_file"] == "/etc/prometheus/metrics.key"


def test_grafana_finds_the_dashboards_and_their_source_of_data() -> None:
    folders = dict(volume.split(":")[1::-1] for volume in SERVICES["grafana"]["volumes"])
    provider = yaml.safe_load(
        (COMPOSE / folders[PROVISIONING + "dashboards/sandbox-service.yaml"]).read_text()
    )
    (path,) = [each["options"]["path"] for each in provider["providers"]]
    assert list((COMPOSE / folders[path]).glob("*.json"))
    assert (COMPOSE / folders[PROVISIONING + "datasources/prometheus.yaml"]).is_file()


@pytest.fixture(scope="module")
def unit() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    parser.optionxform = str
    parser.read(DEPLOY / "systemd" / "sandbox-service.service")
    return parser["Service"]


def test_the_unit_examines_the_machine_before_it_serves(unit) -> None:
    assert " doctor " in unit["ExecStartPre"]
    assert unit["ExecStartPre"].replace(" doctor ", " serve ") == unit["ExecStart"]


def test_the_unit_starts_where_hidden_devices_make_the_tool_of_gpus_fail(unit) -> None:
    assert unit["PrivateDevices"] == "yes"
    findings = check_accelerators(ServiceConfig(), FakeMachine(gpu_names=unavailable("nvidia-smi fails")))
    assert worst(findings) is not Status.PROBLEM


def test_the_unit_leaves_time_to_drain_and_room_for_boxes(unit) -> None:
    deadline = ServiceConfig().deadline
    assert int(unit["TimeoutStopSec"]) >= deadline.drain_s + deadline.release_s + 60
    assert unit["KillSignal"] == "SIGTERM"
    assert unit["TasksMax"] == "infinity"


def test_supervisors_and_gateway_do_not_wait_for_the_programs_of_agents() -> None:
    """Docker boxes run at niceness 0, and Ray gives its workers 15 by default."""
    unit = (DEPLOY / "systemd" / "sandbox-service.service").read_text()
    assert "\nEnvironment=RAY_worker_niceness=0\n" in unit
    assert SERVICES["service"]["environment"]["RAY_worker_niceness"] == "0"


def test_the_unit_has_no_rights(unit) -> None:
    assert unit["User"] != "root"
    assert unit["NoNewPrivileges"] == "yes"
    assert unit["CapabilityBoundingSet"] == ""
    assert unit["ProtectSystem"] == "strict"


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_check_of_the_containers_health_asks_no_proxy(monkeypatch, status, code) -> None:
    set_dead_proxy(monkeypatch)
    (line,) = re.findall(r"^HEALTHCHECK .*\\\n +CMD (.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    _, *words = json.loads(line)
    with probed_server(status) as port:
        words = [word.replace(":8080/", f":{port}/") for word in words]
        asked = subprocess.run([sys.executable, *words], capture_output=True, check=False)
    assert asked.returncode == code
