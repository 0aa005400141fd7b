from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from trainer.cli.app import build_cli


def commands() -> dict[str, Any]:
    return dict(get_command(build_cli()).commands)


def test_the_commands_are_those_that_are_documented() -> None:
    assert set(commands()) == {
        "train",
        "sft",
        "preferences",
        "evaluate",
        "compare",
        "sweep",
        "evolve",
        "diagnose",
        "report",
        "simulate",
        "demonstrations",
        "gateway",
        "model",
        "config",
        "data",
        "plan",
        "plugins",
        "reward-model",
    }


@pytest.mark.parametrize("name", commands())
def test_every_command_says_what_it_does_and_every_option_too(name: str) -> None:
    command = commands()[name]
    assert command.help
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name}"


@pytest.mark.parametrize("name", commands())
def test_every_command_teaches_by_example(name: str) -> None:
    assert f"sandbox-trainer {name}" in commands()[name].help.partition("Example")[2]


def test_without_a_command_the_help_is_shown() -> None:
    shown = CliRunner().invoke(build_cli(), [])
    assert "Start with the demo" in shown.output


@pytest.mark.parametrize("name", commands())
def test_help_is_shown_for_each_command(name: str) -> None:
    shown = CliRunner().invoke(build_cli(), [name, "-h"])
    assert shown.exit_code == 0
    assert "Examples:" in shown.output
