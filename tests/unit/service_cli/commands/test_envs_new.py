"""``envs new`` writes a package that works as it is, and the page on environments quotes it."""

import re
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sandbox_plugins import API_VERSION, PluginGroup, find_plugin, load_plugin
from service_cli.commands.app import build_cli
from tests.harness.plugin_packages import plugin_packages

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "environments" / "adding.md").read_text()
IDEA = (DOCS / "from_idea_to_model.md").read_text()


def new(*words):
    return CliRunner().invoke(build_cli(), ["envs", "new", *map(str, words)])


def lines(folder):
    """Lines of the environment: of its catalog and of its world."""
    return sum(len((folder / path).read_text().splitlines()) for path in ("catalog.py", "box/world.py"))


@pytest.fixture
def written(tmp_path):
    """A function that writes a package and makes it importable."""
    with plugin_packages(tmp_path) as packages:

        def write(name, *words):
            done = new(name, "-o", packages.folder / name, *words)
            assert done.exit_code == 0, done.output
            (packages.folder / name / name).rename(packages.folder / "moved")
            (packages.folder / name).rename(packages.folder / "project")
            (packages.folder / "moved").rename(packages.folder / name)
            return packages.folder

        yield write


@pytest.mark.parametrize("words", [(), ("--single-turn",)], ids=["tools", "single turn"])
def test_its_entry_point_makes_a_catalog_of_its_name(written, words) -> None:
    folder = written("trivia", *words)
    project = tomllib.loads((folder / "project" / "pyproject.toml").read_text())["project"]
    (entry,) = project["entry-points"][PluginGroup.ENVIRONMENTS.value].items()
    assert entry == ("trivia", "trivia.catalog:Trivia")
    catalog = load_plugin(find_plugin(PluginGroup.ENVIRONMENTS, entry[1]))()
    assert catalog.describe().name == catalog.spec.name == "trivia"
    assert catalog.spec.world_module == "trivia.box.world"
    assert f"TRAINING_SANDBOX_API = {API_VERSION}" in (folder / "trivia" / "__init__.py").read_text()
    for split in catalog.splits:
        assert all(catalog.reference(task_id) for task_id in catalog.task_ids(split)[:5])


def test_the_page_quotes_the_package_and_counts_its_lines(written, tmp_path) -> None:
    folder = written("trivia", "--single-turn") / "trivia"
    quoted = re.findall(r"^```python[^\n]*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert quoted == [(folder / path).read_text() for path in ("catalog.py", "box/world.py")]
    assert new("vault", "-o", tmp_path / "vault").exit_code == 0
    counted = re.search(
        r"single-turn environment has (\d+) lines .* with tools has (\d+)\.", PAGE.replace("\n", " ")
    )
    assert counted is not None
    assert list(map(int, counted.groups())) == [lines(folder), lines(tmp_path / "vault" / "vault")]
    assert f"{lines(folder)} lines together" in IDEA


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("Chess", "is not a name"),
        ("9chess", "is not a name"),
        ("vault-", "is not a name"),
        ("vault_", "is not a name"),
        ("class", "a module or class of Python cannot have it"),
        ("none", "a module or class of Python cannot have it"),
        ("code", "there is an environment 'code' already"),
        ("json", "there is a Python module 'json' already"),
        ("trainer", "there is a Python module 'trainer' already"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_and_nothing_is_written(
    tmp_path, monkeypatch, name, cause
) -> None:
    monkeypatch.chdir(tmp_path)
    done = new(name)
    assert done.exit_code == 2
    assert cause in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_left_alone(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vault").write_text("kept")
    for words in ((), ("-o", "vault/below")):
        refused = new("vault", *words)
        assert refused.exit_code == 2
        assert "choose another folder with --output" in " ".join(refused.stderr.split())
    assert (tmp_path / "vault").read_text() == "kept"


def test_a_folder_that_has_files_is_left_alone(tmp_path) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    done = new("chess", "-o", tmp_path)
    assert (done.exit_code, "is not empty" in done.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]
