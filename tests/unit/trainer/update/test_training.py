"""One update: which passes drop inputs."""

import pytest
import torch

from tests.harness.learning import run_config, small_batch, small_model
from trainer.types import Objective
from trainer.update.learner import Learner


@pytest.mark.parametrize(
    ("objective", "dropped"),
    [(Objective.POLICY, False), (Objective.PREFERENCES, False), (Objective.SFT, True)],
)
def test_adapters_drop_inputs_where_no_other_pass_is_compared(tmp_path, objective, dropped):
    folder, weights = small_model(tmp_path / "model"), []
    for dropout in (0.0, 0.5):
        config = run_config(learner={"lora": {"rank": 4, "dropout": dropout}})
        learner = Learner(folder, config.learner_settings, "cpu")
        learner.begin_stage(config.learner.optimizer, 10)
        learner.update(learner.annotate(small_batch(objective=objective)))
        weights.append({name: weight.clone() for name, weight in learner.named_weights()})
    alike = all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
    assert alike is not dropped
