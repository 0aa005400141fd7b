import weakref

import pytest
from torch.utils._python_dispatch import TorchDispatchMode

from tests.harness.learning import run_config, small_batch, small_model
from trainer.update.learner import Learner

WITH_REFERENCE = {"kl": {"place": "loss"}}


class Held(TorchDispatchMode):
    """Whether objects are alive whenever torch computes or allocates something."""

    def __init__(self, *objects):
        super().__init__()
        self._objects = [weakref.ref(each) for each in objects]
        self.seen = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.seen.append(any(each() is not None for each in self._objects))
        return function(*arguments, **(options or {}))


@pytest.fixture
def learner(tmp_path):
    config = run_config(algorithm=WITH_REFERENCE)
    made = Learner(small_model(tmp_path / "model"), config.learner_settings, "cpu")
    made.begin_stage(config.learner.optimizer, 10)
    made.update(made.annotate(small_batch()))
    return made


def state_of(learner):
    """Moments, reference and gradients of the stage."""
    optimizer = learner.optimizer
    gradients = [parameter.grad for parameter in optimizer.parameters.values()]
    return Held(*optimizer.moments().values(), *learner.reference.values.values(), *gradients)


def test_the_state_of_a_stage_is_freed_before_that_of_the_next_is_made(learner):
    with state_of(learner) as held:
        learner.begin_stage(learner.settings.learner.optimizer, 10)
    assert held.seen
    assert not any(held.seen)


def test_the_state_of_a_stage_is_freed_before_that_of_a_checkpoint_is_made(learner, tmp_path):
    learner.save(tmp_path / "checkpoint").result()
    with state_of(learner) as held:
        learner.load_checkpoint(tmp_path / "checkpoint")
    assert held.seen
    assert not any(held.seen)
