import json

import pytest
from typer.testing import CliRunner

from tests.fakes.training import evaluation
from trainer.cli.app import build_cli


def run(*words):
    return CliRunner().invoke(build_cli(), ["compare", *map(str, words)])


@pytest.fixture
def files(tmp_path):
    paths = []
    for name, solved in (("before", 1), ("after", 9)):
        path = tmp_path / f"{name}.json"
        path.write_text(evaluation("alone", solved).to_json())
        paths.append(path)
    return paths


def test_compare_prints_the_difference_and_writes_page_and_markdown(files, tmp_path):
    page, text = tmp_path / "page.html", tmp_path / "page.md"
    done = run(*files, "--html", page, "--markdown", text)
    assert done.exit_code == 0
    assert "after - before" in " ".join(done.stdout.split()) or "+80.0" in done.stdout
    assert "Differences" in page.read_text()
    assert text.read_text().startswith("| model |")


def test_compare_prints_json(files):
    (pair,) = json.loads(run(*files, "--json").stdout)["pairs"]
    assert (pair["first"], pair["second"], pair["wins"]) == ("before", "after", 8)


def test_one_evaluation_is_refused(files):
    done = run(files[0])
    assert done.exit_code == 2
    assert "at least two evaluations" in done.stderr
