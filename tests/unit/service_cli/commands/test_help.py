import subprocess
import sys
import tomllib
from typing import Any

import pytest

from service_cli.commands.app import build_cli
from tests.harness.help_texts import all_commands, example_settings, swallowed


def commands() -> dict[str, Any]:
    return all_commands("sandbox-service", build_cli())


def test_the_commands_are_those_that_are_documented() -> None:
    first = {name.split()[1] for name in commands() if " " in name}
    assert first == {
        "adapter",
        "bench",
        "demo",
        "doctor",
        "drain",
        "envs",
        "images",
        "keys",
        "mcp",
        "node",
        "node-env",
        "plugins",
        "run",
        "serve",
        "status",
        "trajectories",
    }


@pytest.mark.parametrize("name", [name.split()[1] for name in commands() if name.count(" ") == 1])
def test_a_command_that_is_called_is_the_same_without_the_others(name: str) -> None:
    alone = all_commands("sandbox-service", build_cli(name))
    whole = {of: command for of, command in commands().items() if of.split()[1:2] == [name]}
    assert {of: command.help for of, command in alone.items() if " " in of} == {
        of: command.help for of, command in whole.items()
    }


def test_a_command_does_not_load_what_only_others_need() -> None:
    loads = (
        "import sys; from service_cli.commands.app import build_cli; build_cli('keys'); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True)
    assert not {"fastapi", "sqlalchemy", "docker", "ray"} & set(done.stdout.split())


@pytest.mark.parametrize("name", [name for name in commands() if " " in name])
def test_every_command_says_what_it_does_and_every_option_too(name: str) -> None:
    command = commands()[name]
    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name}"


@pytest.mark.parametrize("name", [name for name, item in commands().items() if not hasattr(item, "commands")])
def test_every_command_teaches_by_example(name: str) -> None:
    assert "Example" in (commands()[name].help or "")


@pytest.mark.parametrize("name", commands())
def test_no_bracket_is_taken_for_a_style(name: str) -> None:
    assert swallowed(commands()[name]) == []


@pytest.mark.parametrize("name", commands())
def test_lists_in_examples_survive_a_shell(name: str) -> None:
    for key, value in example_settings(commands()[name], "sandbox-service"):
        if value.startswith("["):
            assert tomllib.loads(f"value = {value}"), key


def test_envs_says_what_it_does_without_a_command() -> None:
    assert (
        "Without a command, list the environments of a running service."
        in commands()["sandbox-service envs"].help
    )
