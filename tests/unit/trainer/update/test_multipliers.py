"""Multipliers grow above the limit, fall below it, and survive a checkpoint."""

from dataclasses import replace

import pytest

from tests.harness.learning import run_config, small_batch, small_model
from trainer.config.constraint import ConstraintConfig
from trainer.update.learner import Learner
from trainer.update.multipliers import initial_multipliers, updated_multipliers

ONE = [ConstraintConfig(cost="call.rm", limit=1.0, learning_rate=0.5, initial=0.25, most=2.0)]


@pytest.mark.parametrize(
    ("cost", "expected"), [(3.0, 1.25), (1.0, 0.25), (0.8, 0.15), (0.0, 0.0), (9.0, 2.0)]
)
def test_a_multiplier_moves_by_its_constraints_violation_within_bounds(cost, expected):
    found = updated_multipliers(initial_multipliers(ONE), {"call.rm": cost}, ONE)
    assert found == pytest.approx({"call.rm": expected})


def learner_on(folder):
    constraint = {"cost": "call.rm", "limit": 1.0, "learning_rate": 0.5}
    config = run_config(algorithm={"constraints": [constraint]})
    learner = Learner(folder, config.learner_settings, "cpu")
    learner.begin_stage(config.learner.optimizer, 10)
    return learner


def step(learner, number, cost):
    batch = learner.annotate(small_batch(number))
    return learner.update(replace(batch, metrics={"cost/call.rm": cost}))


def test_a_resumed_learner_goes_on_with_the_multipliers_of_its_checkpoint(tmp_path):
    folder = small_model(tmp_path / "model")
    learner = learner_on(folder)
    assert step(learner, 0, 2.0)["multiplier/call.rm"] == 0.5
    learner.save(tmp_path / "checkpoint").result()
    assert step(learner, 1, 2.0)["multiplier/call.rm"] == 1.0
    again = learner_on(folder)
    again.load_checkpoint(tmp_path / "checkpoint")
    assert again.multipliers == {"call.rm": 0.5}
    assert step(again, 1, 2.0)["multiplier/call.rm"] == 1.0


def test_a_step_that_measured_no_cost_leaves_the_multiplier(tmp_path):
    learner = learner_on(small_model(tmp_path / "model"))
    assert step(learner, 0, 2.0)["multiplier/call.rm"] == 0.5
    assert learner.update(learner.annotate(small_batch(1)))["multiplier/call.rm"] == 0.5
