import re
import tomllib
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tests.harness.help_texts import all_commands, example_settings, swallowed
from trainer.cli.app import build_cli
from trainer.config.selection import LabelsConfig, PairsConfig, SelectionConfig


def commands() -> dict[str, Any]:
    return dict(get_command(build_cli()).commands)


ALL = all_commands("sandbox-trainer", build_cli())


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


@pytest.mark.parametrize("name", ALL)
def test_no_bracket_is_taken_for_a_style(name: str) -> None:
    assert swallowed(ALL[name]) == []


@pytest.mark.parametrize("name", ALL)
def test_lists_in_examples_survive_a_shell(name: str) -> None:
    for key, value in example_settings(ALL[name], "sandbox-trainer"):
        if value.startswith("["):
            assert tomllib.loads(f"value = {value}"), key


@pytest.mark.parametrize(
    ("name", "settings"),
    [("select", (SelectionConfig,)), ("pairs", (PairsConfig, LabelsConfig))],
    ids=["select", "pairs"],
)
def test_selections_name_their_settings(name: str, settings: tuple[Any, ...]) -> None:
    (sources,) = [each for each in ALL[f"sandbox-trainer data {name}"].params if each.name == "sources"]
    words = set(re.findall(r"[a-z_]+", sources.help))
    assert words >= {field for config in settings for field in config.model_fields}
