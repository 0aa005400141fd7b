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


@pytest.mark.parametrize("option", ["--html", "--markdown"])
def test_no_output_replaces_an_evaluation(files, option):
    before = files[0].read_text()
    refused = run(f"first={files[0]}", files[1], option, files[0])
    assert refused.exit_code == 2
    assert f"{files[0]} would replace {files[0]}" in refused.stderr.replace("\n", "")
    assert files[0].read_text() == before


def test_page_and_tables_are_two_files(files, tmp_path):
    refused = run(*files, "--html", tmp_path / "both", "--markdown", tmp_path / "both")
    assert refused.exit_code == 2
    assert not (tmp_path / "both").exists()


def test_one_evaluation_is_refused(files):
    done = run(files[0])
    assert done.exit_code == 2
    assert "at least two evaluations" in done.stderr
