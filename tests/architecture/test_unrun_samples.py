"""Samples of the pages that are not run: their commands, options, settings and syntax exist all the same."""

import ast
import importlib.util
import json
import re
import tomllib

import pytest
import typer.main
import yaml

import service_cli.commands.app
import trainer.cli.app
from sandbox_service.config.reading import read_config
from tests.harness.documentation import ROOT, Block, blocks, commands
from trainer.config.reading import read_run

MARKED = [block for block in blocks() if block.marked]
PROGRAMS = {"sandbox-service": service_cli.commands.app, "sandbox-trainer": trainer.cli.app}
VARIABLE = re.compile(r"[A-Z_]+=.*", re.DOTALL)
SETTING = re.compile(r"[a-z_]+(\.[a-z_0-9]+)*=.*", re.DOTALL)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
ABRIDGED = re.compile(r"\$|\.\.\.|…|\bNAME\b|\bFILE\b|<|^N$|seed=\$?N$")
"""A word that stands for others."""


def of(language: str) -> pytest.MarkDecorator:
    chosen = [block for block in MARKED if block.language == language]
    return pytest.mark.parametrize("block", chosen, ids=str)


@of("python")
def test_python_has_its_grammar(block: Block) -> None:
    ast.parse(block.text)


@of("toml")
def test_settings_are_toml(block: Block) -> None:
    tomllib.loads(block.text)


@of("yaml")
def test_manifests_are_yaml(block: Block) -> None:
    assert list(yaml.safe_load_all(block.text))


@of("json")
def test_data_are_json(block: Block) -> None:
    text = block.text.replace("{...}", "{}")
    try:
        json.loads(text)
    except json.JSONDecodeError:
        for line in text.splitlines():
            json.loads(line)


@of("sh")
def test_commands_options_and_settings_exist(block: Block) -> None:
    for words in commands(block):
        while words and VARIABLE.fullmatch(words[0]):
            words = words[1:]
        if not words:
            continue
        program, *rest = words
        name = program.rpartition("/")[2]
        if name in PROGRAMS:
            check_command(name, rest)
        elif name == "make":
            assert [word for word in rest if "=" not in word and word not in TARGETS] == []
        elif (
            name.startswith("python") and rest[:1] == ["-m"] and rest[1].split(".")[0] in ("scripts", "tests")
        ):
            assert importlib.util.find_spec(rest[1]) is not None


def check_command(program: str, words: list[str]) -> None:
    words = words[: words.index("--")] if "--" in words else words  # behind it is another program's
    command = typer.main.get_command(PROGRAMS[program].build_cli())
    path, left = [], list(words)
    while hasattr(command, "commands"):
        assert left, f"{program} {' '.join(words)}: no subcommand"
        name = left.pop(0)
        assert name in command.commands, f"{program} has no command {' '.join([*path, name])}"
        command = command.commands[name]
        path.append(name)
    options = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    named = [word.partition("=")[0] for word in left if re.match(r"--?[a-z]", word)]
    assert [option for option in named if option not in options] == [], (
        f"options of {program} {' '.join(path)}"
    )
    check_settings(program, path, left)


def check_settings(program: str, path: list[str], words: list[str]) -> None:
    """Read the settings of commands that take those of a run or of the service."""
    if any(word.startswith("$") for word in words):
        return  # more of them are in a variable
    settings = [word for word in words if SETTING.fullmatch(word) and not ABRIDGED.search(word)]
    if program == "sandbox-service":
        if path == ["serve"]:
            read_config(None, settings)
    elif path[0] in ("train", "sft", "preferences", "evolve", "evaluate", "plan"):
        files = [ROOT / word for word in words if word.endswith(".toml") and (ROOT / word).is_file()]
        read_run(files[0] if files else None, settings)
