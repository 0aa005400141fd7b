"""``sandbox-trainer plan``: the table, JSON, and the exit code."""

import json

import pytest
from typer.testing import CliRunner

from tests.fakes.training import FakeDriver
from trainer.cli.app import build_cli


@pytest.fixture
def run_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        'name = "mine"\n[model]\nkind = "pretrained"\npath = "Qwen/Qwen3-0.6B"\n'
        '[rollout]\nmax_context_tokens = 4096\n[learner]\ngpus = 1\nsharding = "fsdp2"\n'
    )
    return file


def plan(*words):
    return CliRunner().invoke(build_cli(), ["plan", *map(str, words)], obj=FakeDriver())


def test_a_plan_for_machines_that_are_elsewhere(run_file):
    done = plan(run_file, "--gpus", 2, "--gpu-memory", "80GiB")
    assert done.exit_code == 0
    for line in ("mine: Qwen/Qwen3-0.6B, 596.0M parameters", "1 x GPU: learner", "Adam's moments", "fits"):
        assert line in done.stdout


def test_what_does_not_fit_ends_with_status_1(run_file):
    done = plan(run_file, "--gpus", 1, "--gpu-memory", "80GiB")
    assert done.exit_code == 1
    assert "does not fit: the run wants 2 GPUs, and there is 1" in done.stdout


def test_words_change_the_plan(run_file):
    done = plan(run_file, "learner.gpus=0.5", "engine.gpus=0.5", "engine.gpu_memory_share=0.4", "--gpus", 1)
    assert "1 x GPU: learner + engine" in done.stdout


def test_json_for_programs(run_file):
    told = json.loads(plan(run_file, "--gpus", 2, "--gpu-memory", "80GiB", "--json").stdout)
    assert told["fits"] is True
    assert told["parameters"] == 596_049_920
    assert {group["kind"] for group in told["groups"]} == {"learner", "engine"}


def test_a_wrong_size_is_asked_in_a_wrong_way(run_file):
    assert plan(run_file, "--gpu-memory", "much").exit_code == 2


def test_a_run_that_leaves_gpus_open_is_planned_for_those_of_this_machine(tmp_path):
    file = tmp_path / "open.toml"
    file.write_text("")
    done = CliRunner().invoke(build_cli(), ["plan", str(file)], obj=FakeDriver(gpus=1))
    assert "1 GPU is visible" in done.stderr
    assert "1 x GPU: learner + engine" in done.stdout


@pytest.mark.parametrize(
    ("described", "notice", "groups"),
    [
        (("--gpus", "2"), "the described machine has 2 GPUs", ["1 x GPU: learner", "1 x GPU: engine"]),
        (("--gpu-memory", "80GiB"), "the described machine has 1 GPU", ["1 x GPU: learner + engine"]),
    ],
    ids=["two", "one"],
)
def test_a_run_that_leaves_gpus_open_is_planned_as_a_described_machine_would_train_it(
    tmp_path, described, notice, groups
):
    file = tmp_path / "open.toml"
    file.write_text("")
    done = CliRunner().invoke(build_cli(), ["plan", str(file), *described], obj=FakeDriver())
    assert notice in done.stderr
    titles = [line.strip() for line in done.stdout.splitlines() if "x GPU" in line]
    assert [title.partition("  ")[0] for title in titles] == groups


def test_a_run_that_leaves_gpus_open_is_planned_for_cpus_where_there_are_none(tmp_path):
    file = tmp_path / "open.toml"
    file.write_text("")
    done = CliRunner().invoke(build_cli(), ["plan", str(file), "--gpus", "0"], obj=FakeDriver(gpus=1))
    assert "x GPU" not in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("columns", [40, 60, 100])
def test_numbers_are_whole_in_a_narrow_terminal(run_file, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = plan(run_file, "--gpus", 2, "--gpu-memory", "80GiB", "--host-memory", "1234GiB").stdout
    totals = [line.split("total")[1].strip() for line in shown.splitlines() if "total" in line]
    assert any(total.endswith("of 80.0") for total in totals)
    assert any(total.endswith("of 1234.0") for total in totals)
    assert "\u2026" not in shown
