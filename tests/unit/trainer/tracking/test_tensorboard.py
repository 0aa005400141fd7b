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


@pytest.mark.parametrize("reopened", [True, False], ids=["the run is resumed", "its workers restart"])
def test_steps_that_are_trained_again_replace_those_that_were_given_up(tmp_path, reopened):
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    tracker = TensorboardTracker(tmp_path)
    for step in range(8):
        tracker.log(step, {"reward/mean": 0.25})
    if reopened:
        tracker.close()
        tracker = TensorboardTracker(tmp_path)
    for step in range(5, 10):
        tracker.log(step, {"reward/mean": 0.5})
        tracker.log(step, {"time/update": 1.0})
    tracker.close()
    events = reading.EventAccumulator(str(tmp_path)).Reload()
    read = [(event.step, event.value) for event in events.Scalars("reward/mean")]
    assert read == [(step, 0.25 if step < 5 else 0.5) for step in range(10)]
    assert [event.step for event in events.Scalars("time/update")] == [5, 6, 7, 8, 9]
