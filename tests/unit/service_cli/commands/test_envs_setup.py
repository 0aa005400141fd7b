"""Setting environments up from the command line."""

from functools import partial

import pytest
from typer.testing import CliRunner

from sandbox_service.environments.provisions import operator_note, recipes
from service_cli.commands.app import build_cli
from tests.harness.forked import holds_without_root
from tests.harness.others_folder import set_up_by_another_user
from tests.harness.plugin_packages import plugin_packages


def run_setup(root, *words):
    place = ["--set", f"environments.packages_dir={root}"]
    return CliRunner(env={"COLUMNS": "200"}).invoke(build_cli(), ["envs", "setup", *words, *place])


@pytest.fixture
def setup(tmp_path):
    return partial(run_setup, tmp_path)


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


def test_what_another_user_set_up_is_neither_listed_as_set_up_nor_said_to_be_installed():
    some, *_ = recipes().values()
    with set_up_by_another_user(some) as root:

        def is_named() -> bool:
            listed = run_setup(root)
            assert f"{some.name}: this user cannot read {some.folder(root)}" in listed.stdout
            asked = run_setup(root, some.name)
            assert asked.exit_code == 1
            return "this user cannot read it; give it to" in asked.stderr

        assert holds_without_root(is_named)


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
