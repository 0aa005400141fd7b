import pytest

from trainer.tracking.tensorboard import TensorboardTracker


def test_scalars_can_be_read_again(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    tracker = TensorboardTracker(tmp_path / "events")
    tracker.log(0, {"reward/mean": 0.25})
    tracker.log(1, {"reward/mean": 0.5, "loss/policy": -1.0})
    tracker.close()
    tracker.close()
    (file,) = (tmp_path / "events").iterdir()
    events = list(loader.LegacyEventFileLoader(str(file)).Load())
    scalars = [
        (event.step, value.tag, value.simple_value) for event in events for value in event.summary.value
    ]
    assert scalars == [(0, "reward/mean", 0.25), (1, "reward/mean", 0.5), (1, "loss/policy", -1.0)]
