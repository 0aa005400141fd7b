"""The GPU suite is collected here, and its learner syncs weights on the CPU."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.model_engine import ModelEngine
from tests.harness.learner_process import LearnerProcess
from tests.harness.learning import small_model
from trainer.config import RunConfig

ROOT = Path(__file__).parents[4]
FILES = sorted(map(str, (ROOT / "tests" / "gpu").glob("test_*.py")))


def test_tests_that_need_gpus_are_collected_without_one():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *FILES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    # 5: all files skip themselves, where vLLM or Ray is not installed.
    assert done.returncode in (0, 5), done.stdout + done.stderr


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_learner_of_the_tests_on_gpus_syncs_what_it_moved(tmp_path):
    model = small_model(tmp_path / "model")
    run = RunConfig.model_validate(
        {"root": tmp_path, "engine": {"device": "cpu"}, "sync": {"folder": tmp_path, "timeout_s": 60}}
    )
    engine = ModelEngine(model, dtype="float32")
    learner = LearnerProcess(run.model_dump_json(), model, "cpu", [engine])
    report = learner.sync_weights(1)
    assert (report.version, report.lost) == (1, ())
    assert report.agreement.difference < 1e-5
    (said,) = engine.score_sequences([(1, 2, 3, 4)]).result()
    assert learner.logprobs((1, 2, 3, 4)) == pytest.approx(said, abs=1e-5)
