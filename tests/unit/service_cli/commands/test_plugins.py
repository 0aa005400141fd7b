"""The list of plugins names their packages, and a broken one disturbs neither the others nor the help."""

import json

import pytest
from typer.testing import CliRunner

import service_cli.commands.app
import trainer.cli.app
from sandbox_plugins import PluginGroup
from tests.harness.plugin_packages import API, plugin_packages

PARTS = """
FILE = __file__


def good(given):
    return 1.0


def lost():
    return ["/nowhere.jsonl"]


class Half:
    def parse(self, text): ...
"""


@pytest.fixture
def packages(tmp_path):
    """A package with a good and a broken part of each command's kinds, and one whose import raises."""
    with plugin_packages(tmp_path) as installed:
        installed.install(
            "parts-pack",
            {"parts_pack.py": API + PARTS},
            {
                PluginGroup.TASK_PACKS: {
                    "good": "parts_pack:FILE",
                    "gone": "parts_pack:gone",
                    "lost": "parts_pack:lost",
                },
                PluginGroup.REWARDS: {
                    "good": "parts_pack:good",
                    "judge": "parts_pack:good",
                    "text": "parts_pack:FILE",
                },
                PluginGroup.TOOL_FORMATS: {"half": "parts_pack:Half"},
            },
        )
        installed.install(
            "bad-pack",
            {"bad_pack.py": "raise SystemExit('not [a] or [/b] today')"},
            {PluginGroup.ENVIRONMENTS: {"bad": "bad_pack:Bad"}, PluginGroup.LOSSES: {"bad": "bad_pack:loss"}},
        )
        yield installed


def invoke(cli, *words):
    return CliRunner(env={"COLUMNS": "300"}).invoke(cli, list(words), obj=object())


def listed(cli):
    done = invoke(cli, "plugins", "--json")
    assert done.exit_code == 0, done.output
    return {(each["name"], each["package"]): each["problem"] for each in json.loads(done.stdout)}


def test_the_service_lists_environments_and_task_packs(packages) -> None:
    found = listed(service_cli.commands.app.build_cli())
    assert found["good", "parts-pack 1.0"] == ""
    assert "parts_pack has no 'gone'" in found["gone", "parts-pack 1.0"]
    assert "there is no file /nowhere.jsonl" in found["lost", "parts-pack 1.0"]
    assert "bad_pack cannot be imported: SystemExit: not [a] or [/b] today" in found["bad", "bad-pack 1.0"]


def test_the_trainer_lists_its_own_kinds(packages) -> None:
    found = listed(trainer.cli.app.build_cli())
    assert {name for name, _ in found} == {"good", "judge", "text", "half", "bad"}
    assert found["good", "parts-pack 1.0"] == ""
    assert "the name 'judge' is built in" in found["judge", "parts-pack 1.0"]
    assert "it is of the type str, not a function" in found["text", "parts-pack 1.0"]
    assert "without the method 'render'" in found["half", "parts-pack 1.0"]


@pytest.mark.parametrize("cli", [service_cli.commands.app.build_cli, trainer.cli.app.build_cli])
def test_help_and_the_table_work_with_a_broken_plugin(packages, cli) -> None:
    assert invoke(cli(), "--help").exit_code == 0
    done = invoke(cli(), "plugins")
    assert (done.exit_code, "parts-pack 1.0" in done.stdout) == (0, True)
    assert "not [a] or [/b] today" in done.stdout
