import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from tests.fakes.training import FakeDriver, evaluation
from trainer.cli.app import build_cli
from trainer.cli.evolution_progress import EvolutionProgress
from trainer.config.reading import read_run
from trainer.evaluate.results import EvaluationResult, TaskOutcome


def run(*words: object, driver: FakeDriver | None = None) -> Result:
    return CliRunner().invoke(build_cli(), list(map(str, words)), obj=driver or FakeDriver())


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    file = tmp_path / "run.toml"
    file.write_text(f'name = "mine"\nroot = "{tmp_path}"\n[evaluation]\nsplits = ["test"]\n')
    return file


def test_evolve_hands_over_the_run(run_file: Path) -> None:
    driver = FakeDriver()
    assert run("evolve", run_file, "evolve.iterations=7", "--resume", driver=driver).exit_code == 0
    ((verb, config, resume),) = driver.calls
    assert (verb, config.evolve.iterations, resume) == ("evolve", 7, True)


def test_evolve_shows_success_by_iteration_and_the_model_that_is_kept(run_file: Path) -> None:
    done = run("evolve", run_file, driver=FakeDriver(result=evaluation("alone", 9)))
    assert "90%" in done.stdout
    assert "kept: the model of iteration 1" in done.stdout
    assert "report.html" in done.stdout


def test_progress_of_phases_goes_to_standard_error(run_file: Path) -> None:
    driver = FakeDriver(result=evaluation("alone", 9), warnings=["slow"])
    done = run("evolve", run_file, driver=driver)
    assert "iteration 1/3, explore: 64 tasks, 4 episodes each" in done.stderr
    assert "explore 32/64" in done.stderr
    assert "iteration 1/3: held out 90%" in done.stderr
    assert "warning: slow" in done.stderr
    quiet = run("evolve", run_file, "tracking.progress=false", driver=driver)
    assert "iteration" not in quiet.stderr
    assert "warning: slow" in quiet.stderr


@pytest.mark.parametrize("loss", ["loss/sft", "loss/preferences"])
def test_the_loss_of_a_training_is_shown_whatever_its_method(loss: str) -> None:
    screen = io.StringIO()
    with EvolutionProgress(3, Console(file=screen, width=80)) as progress:
        progress.begin_phase(1, "train", "40 steps")
        progress.note_step(0, {loss: 0.5})
    assert "train step 1: loss 0.500" in screen.getvalue()


def test_evolve_prints_json_for_programs(run_file: Path) -> None:
    told = json.loads(
        run("evolve", run_file, "--json", driver=FakeDriver(result=evaluation("alone", 9))).stdout
    )
    assert told["kept"] == 1
    assert [each["iteration"] for each in told["iterations"]] == [0, 1]
    assert told["iterations"][1]["held_out"]["success"] == 0.9


def test_a_model_without_a_verdict_has_no_interval(run_file: Path) -> None:
    lost = EvaluationResult(0, "alone", "test", (TaskOutcome("a", "", 0, 0, 0.0, failures=4),))
    done = run("evolve", run_file, driver=FakeDriver(result=lost))
    assert "iteration 1/3: held out no verdict;" in done.stderr
    assert "100%" not in done.stdout + done.stderr


def test_force_starts_over_and_excludes_resuming(run_file: Path) -> None:
    driver = FakeDriver()
    assert run("evolve", run_file, "--force", driver=driver).exit_code == 0
    assert [call[0] for call in driver.calls] == ["replace and evolve"]
    both = run("evolve", run_file, "--force", "--resume")
    assert both.exit_code == 2
    assert "choose one of them" in both.stderr


def test_an_interrupt_says_how_to_continue(run_file: Path) -> None:
    ended = run("evolve", run_file, driver=FakeDriver(error=KeyboardInterrupt()))
    assert ended.exit_code == 130
    assert "continue with --resume" in ended.stderr


def test_report_writes_the_page_of_an_evolution(run_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "iteration_0").mkdir(parents=True)
    (folder / "run.json").write_text(read_run(run_file).model_dump_json())
    written = run("report", folder, "-o", tmp_path / "page.html")
    assert written.exit_code == 0, written.output
    assert 'href="#iterations"' in (tmp_path / "page.html").read_text()


def test_help_says_where_an_evolution_resumes() -> None:
    shown = " ".join(run("evolve", "--help").stdout.replace("\u2502", " ").split())
    assert "Resume the evolution of this name in the phase that was interrupted." in shown
