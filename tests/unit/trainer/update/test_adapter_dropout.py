"""Masks of the adapters' dropout follow from the run's seed, the step and the rank alone."""

from dataclasses import replace

import pytest
import torch

from tests.harness.learning import run_config, small_batch, small_model
from trainer.types import Objective
from trainer.update.learner import Learner

ROWS = small_batch(objective=Objective.SFT)


@pytest.fixture
def folder(tmp_path):
    return small_model(tmp_path / "model")


def learner_of(folder, **settings):
    config = run_config(learner={"lora": {"rank": 4, "dropout": 0.3}, **settings})
    learner = Learner(folder, config.learner_settings, "cpu")
    learner.begin_stage(config.learner.optimizer, 10)
    return learner


def losses_of(learner, *steps):
    """Losses of some steps, all on the same rows."""
    return [learner.update(replace(ROWS, step=step))["loss/sft"] for step in steps]


def test_an_update_has_the_same_masks_whatever_was_drawn_before_it(folder):
    one, other = learner_of(folder), learner_of(folder)
    losses = losses_of(one, 0, 1)
    torch.rand(5)
    assert losses_of(other, 0) == losses[:1]
    torch.rand(5)
    assert losses_of(other, 1) == losses[1:]


@pytest.mark.parametrize(
    ("seed", "rank", "step"), [(8, 0, 1), (0, 1, 1), (0, 0, 2)], ids=["seed", "rank", "step"]
)
def test_other_seeds_ranks_and_steps_have_other_masks(folder, seed, rank, step):
    """Of the second update: adapters change no output before the first."""
    one, other = learner_of(folder), learner_of(folder)
    assert losses_of(one, 0) == losses_of(other, 0)
    other.settings = replace(other.settings, seed=seed)
    other.rank = rank
    assert losses_of(one, 1) != losses_of(other, step)


def test_recomputed_activations_have_the_masks_of_the_pass(folder):
    kept, recomputed = learner_of(folder), learner_of(folder, gradient_checkpointing=True)
    assert losses_of(kept, 0, 1, 2) == pytest.approx(losses_of(recomputed, 0, 1, 2), rel=1e-5)
