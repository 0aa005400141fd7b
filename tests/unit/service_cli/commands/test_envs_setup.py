"""Setting environments up from the command line."""

import pytest
from typer.testing import CliRunner

from sandbox_service.environments.provisions import operator_note, recipes
from service_cli.commands.app import build_cli
from tests.harness.plugin_packages import plugin_packages


@pytest.fixture
def setup(tmp_path):
    def invoke(*words):
        place = ["--set", f"environments.packages_dir={tmp_path}"]
        return CliRunner(env={"COLUMNS": "200"}).invoke(build_cli(), ["envs", "setup", *words, *place])

    return invoke


def test_without_a_name_it_lists_what_is_set_up(setup, tmp_path):
    some, *_ = recipes().values()
    some.folder(tmp_path).mkdir()
    result = setup()
    assert result.exit_code == 0, result.output
    assert f"{some.name}: set up" in result.stdout
    assert result.stdout.count("not set up") == len(recipes()) - 1


def test_an_environment_that_needs_none_is_refused_with_those_that_do(setup):
    result = setup("echo")
    assert result.exit_code == 2
    assert all(name in result.stderr for name in recipes())


def test_what_is_there_is_kept_and_the_operators_data_is_noted(setup, tmp_path):
    some, *_ = recipes().values()
    some.folder(tmp_path).mkdir()
    result = setup(some.name, "--data", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "already installed" in result.stdout
    assert operator_note(some.name, tmp_path).read_text().strip() == str(tmp_path)


def test_data_is_for_one_environment(setup, tmp_path):
    assert setup("all", "--data", str(tmp_path)).exit_code == 2


def test_a_referenced_recipe_that_cannot_be_read_is_an_error_in_one_sentence(setup, tmp_path):
    with plugin_packages(tmp_path) as packages:
        packages.write(
            {"own_env/__init__.py": "", "own_env/box/__init__.py": "", "own_env/setup/packages.txt": "x"}
        )
        (packages.folder / "own_env/setup/OPTIONAL").write_bytes(b"\xff")
        result = setup("own_env:Own")
    assert result.exit_code == 2
    assert "environment 'own_env:Own': its recipe in" in result.stderr
    assert "Traceback" not in result.output
