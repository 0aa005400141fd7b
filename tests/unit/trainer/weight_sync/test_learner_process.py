"""The learner of the GPU suite syncs weights on the CPU."""

import pytest

from tests.fakes.model_engine import ModelEngine
from tests.harness.learner_process import LearnerProcess
from tests.harness.learning import small_model
from trainer.config import RunConfig


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
