"""The benchmark of killed runs: what it leaves behind, and what it compares. No run is played."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.benchmarks import recovery
from tests.benchmarks.training_runs import RunFailed
from tests.harness.waiting import wait_until

BENCHMARK = """
import sys
from pathlib import Path
from tests.benchmarks import recovery
from tests.benchmarks.training_runs import ended
from tests.harness import killed_run
train, folder = map(Path, sys.argv[1:])
killed_run.train_command = lambda: train
sys.argv[1:] = ["undisturbed", "--folder", str(folder), "--model", str(folder)]
sys.exit(ended(recovery.main))
"""


def row(steps: int, *, survived: bool = True) -> dict[str, object]:
    return {"survived": survived, "rewards": [0.5] * steps, "consumed": "c", "seconds": 9.0}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Scenarios that are not played, and the file for their results."""
    monkeypatch.setattr(recovery, "play", lambda plan, scenario: plan)
    monkeypatch.setattr(
        recovery, "outcome", lambda plan, scenario: row(plan.steps, survived=scenario != "box")
    )
    return tmp_path / "out.json"


def call(monkeypatch: pytest.MonkeyPatch, output: Path, *words: str) -> int:
    folder = str(output.parent)
    given = [*words, "--folder", folder, "--model", folder, "--output", str(output)]
    monkeypatch.setattr(sys, "argv", ["recovery", *given])
    return recovery.main()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_no_run_is_left_behind_by_a_benchmark_that_is(number: signal.Signals, tmp_path: Path) -> None:
    train = tmp_path / "train"
    train.write_text("#!/bin/sh\nexec sleep 600\n")
    train.chmod(0o755)
    benchmark = subprocess.Popen(
        [sys.executable, "-c", BENCHMARK, str(train), str(tmp_path)],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        wait_until(lambda: (tmp_path / "undisturbed.log").exists())
        wait_until(lambda: [each.name() for each in psutil.Process(benchmark.pid).children()] == ["sleep"])
        (run,) = psutil.Process(benchmark.pid).children()
        benchmark.send_signal(number)
        assert benchmark.wait() == (130 if number == signal.SIGTERM else -number)
        wait_until(lambda: not run.is_running())
    finally:
        benchmark.kill()
        benchmark.wait()


def test_results_of_other_steps_are_kept_and_not_compared(
    played: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.write_text(json.dumps({"undisturbed": row(12)}))
    assert call(monkeypatch, played, "engine", "--steps", "6") == 0
    found = json.loads(played.read_text())
    assert list(found) == ["undisturbed", "engine"]
    assert "same_consumed" not in found["engine"]


def test_runs_of_one_call_are_compared_in_whatever_order(
    played: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call(monkeypatch, played, "engine", "undisturbed") == 0
    assert json.loads(played.read_text())["engine"]["same_consumed"] is True


def test_a_run_that_did_not_survive_is_named_after_its_results_are_written(
    played: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunFailed, match="did not survive: box"):
        call(monkeypatch, played, "box", "engine")
    assert list(json.loads(played.read_text())) == ["box", "engine"]
