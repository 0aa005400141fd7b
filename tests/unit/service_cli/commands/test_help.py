from typing import Any

import pytest
from typer.main import get_command

from service_cli.commands.app import build_cli


def commands() -> dict[str, Any]:
    found: dict[str, Any] = {}

    def walk(name: str, command: Any) -> None:
        found[name] = command
        for child, below in getattr(command, "commands", {}).items():
            walk(f"{name} {child}", below)

    walk("sandbox-service", get_command(build_cli()))
    return found


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


@pytest.mark.parametrize("name", [name for name in commands() if " " in name])
def test_every_command_says_what_it_does_and_every_option_too(name: str) -> None:
    command = commands()[name]
    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name}"


@pytest.mark.parametrize("name", [name for name, item in commands().items() if not hasattr(item, "commands")])
def test_every_command_teaches_by_example(name: str) -> None:
    assert "Example" in (commands()[name].help or "")
