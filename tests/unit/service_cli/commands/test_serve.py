"""``serve`` and ``demo`` refuse at once what they would otherwise wait for, or fail with after minutes."""

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from local_processes.ports import free_port
from service_cli.commands.app import build_cli

# Images cannot be built here, so that a command that begins with them ends with another message.
WITHOUT_ENGINE = ("sandbox.kind=docker", "sandbox.docker_host=tcp://127.0.0.1:1")


def invoke(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(build_cli(), words)


def serve(*words: str) -> Result:
    return invoke("serve", *WITHOUT_ENGINE, f"server.port={free_port()}", *words)


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_store_that_cannot_be_used_ends_the_command_before_images_are_built(command: str) -> None:
    words = ("store.url=mysql://db/t", f"server.port={free_port()}")
    result = invoke(command, *WITHOUT_ENGINE, *words)
    assert result.exit_code == 1
    assert "the trajectory store cannot be used" in result.stderr
    assert "set store.url to sqlite:///FILE" in result.stderr
    assert "starting" not in result.stderr
    assert "no Docker engine answers" not in result.stderr


def test_a_taken_port_ends_serve_before_images_are_built() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = invoke("serve", *WITHOUT_ENGINE, "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 1
    assert "in use; choose another with --port" in result.stderr
    assert "no Docker engine answers" not in result.stderr


def test_a_setting_that_this_machine_cannot_serve_ends_serve_before_images_are_built(tmp_path: Path) -> None:
    result = serve(*(f"fleet.tls_{name}={tmp_path}/none.pem" for name in ("certificate", "key", "authority")))
    assert result.exit_code == 1
    assert "none.pem cannot be read" in result.stderr
    assert "no Docker engine answers" not in result.stderr


@pytest.mark.parametrize("settings", [WITHOUT_ENGINE, ("sandbox.kind=process",)], ids=["docker", "process"])
def test_serving_no_environment_is_a_wrong_setting(settings: tuple[str, ...]) -> None:
    result = invoke("serve", *settings, "environments.enabled=[]")
    assert result.exit_code == 2
    assert "environments.enabled" in result.stderr
    assert "Traceback" not in result.output


def test_environments_that_are_left_out_are_not_said_to_be_missing(tmp_path: Path) -> None:
    places = (f"environments.packages_dir={tmp_path}", f"store.url=sqlite:///{tmp_path}/t.sqlite")
    assert "not set up and not served: alfworld" in serve(*places).stderr
    assert "not set up" not in serve(*places, "environments.enabled=['code']").stderr
