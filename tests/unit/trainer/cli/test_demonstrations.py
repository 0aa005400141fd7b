"""Tasks and demonstrations are made of questions, and no file is replaced unasked."""

import pytest
from typer.testing import CliRunner

from tests.fakes.training import FakeDriver
from trainer.cli.app import build_cli


def run(*words):
    return CliRunner().invoke(build_cli(), list(map(str, words)), obj=FakeDriver())


def test_demonstrations_are_made_beside_the_questions(tmp_path):
    source = tmp_path / "sums.jsonl"
    source.write_text('{"question": "What is 2 plus 3?", "answer": 5, "program": "print(2 + 3)"}\n')
    done = run("demonstrations", source)
    assert done.exit_code == 0
    assert "1 task, 1 with a program" in done.stdout
    assert (tmp_path / "sums.tasks.jsonl").exists()
    assert (tmp_path / "sums.demonstrations.jsonl").exists()
    source.write_text("{}\n")
    wrong = run("demonstrations", source)
    assert wrong.exit_code == 1
    assert "sums.jsonl:1" in wrong.stderr


@pytest.mark.parametrize("option", ["--tasks", "--output"])
def test_a_dash_is_no_file_of_demonstrations(tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "sums.jsonl"
    source.write_text('{"question": "What is 2 plus 3?", "answer": 5}\n')
    refused = run("demonstrations", source, option, "-")
    assert (refused.exit_code, "is not standard output here" in refused.stderr) == (2, True)
    assert [*tmp_path.iterdir()] == [source]


def test_demonstrations_replace_neither_their_source_nor_each_other(tmp_path):
    source = tmp_path / "sums.jsonl"
    source.write_text('{"question": "What is 2 plus 3?", "answer": 5}\n')
    before = source.read_text()
    both = tmp_path / "both.jsonl"
    for words in (["--tasks", source], ["--output", source], ["--tasks", both, "--output", both]):
        refused = run("demonstrations", source, *words)
        assert refused.exit_code == 2
        assert "would replace" in refused.stderr
    assert [*tmp_path.iterdir()] == [source]
    assert source.read_text() == before


@pytest.mark.parametrize("name", ["sums.tasks.jsonl", "sums.demonstrations.jsonl"])
def test_other_content_beside_the_questions_is_replaced_with_force_only(tmp_path, name):
    source, other = tmp_path / "sums.jsonl", tmp_path / name
    source.write_text('{"question": "What is 2 plus 3?", "answer": 5}\n')
    other.write_text("of another kind\n")
    refused = run("demonstrations", source)
    assert refused.exit_code == 2
    assert f"{other} exists and has other content" in refused.stderr
    assert sorted(tmp_path.iterdir()) == sorted([source, other])
    assert other.read_text() == "of another kind\n"
    assert run("demonstrations", source, "--force").exit_code == 0
    assert other.read_text() != "of another kind\n"
    assert run("demonstrations", source).exit_code == 0
