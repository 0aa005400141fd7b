import pytest

from trainer.config import RunConfig
from trainer.loop.throughput import devices_of


@pytest.mark.parametrize(
    ("learner", "engine", "devices"),
    [
        ({"workers": 2}, {"count": 1}, 3),
        ({"workers": 4, "gpus": 1}, {"count": 2, "tensor_parallel": 2}, 8),
        ({"workers": 8, "gpus": 0.6}, {"count": 8, "gpus": 0.4}, 8),
    ],
)
def test_devices_are_gpus_or_else_processes(learner, engine, devices):
    config = RunConfig.model_validate({"learner": learner, "engine": engine})
    assert devices_of(config.hardware, config.learner.workers) == pytest.approx(devices)
