import pytest

from trainer.config import RunConfig
from trainer.weight_sync.choice import resolve_device


@pytest.mark.parametrize(
    ("device", "gpus", "found"),
    [("auto", 0, "cpu"), ("auto", 0.5, "cuda"), ("cuda", 0, "cuda"), ("cpu", 1, "cpu")],
)
def test_engines_run_on_what_the_learner_runs_on_unless_told_otherwise(device, gpus, found):
    config = RunConfig.model_validate({"engine": {"device": device}, "learner": {"gpus": gpus}})
    assert resolve_device(config.hardware) == found
