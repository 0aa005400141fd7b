"""SFT, a reward model and PPO, killed after any step: a resumed run ends with the very same weights."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from tests.harness.learning import WORDS, run_config, small_batch, small_model
from trainer.loop.checkpoints import Position, restored
from trainer.loop.loop import TrainingLoop
from trainer.loop.plan import plan_of
from trainer.types import Batch, Objective, Sample
from trainer.update.learner import Learner

STEPS = (2, 3, 2)
"""Of each stage."""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    data = tmp_path_factory.mktemp("data") / "rows.jsonl"
    data.write_text("")
    offline = {"data": {"files": [str(data)]}, "optimizer": {"learning_rate": 1e-2}}
    return run_config(
        stages=[
            {"kind": "sft", "steps": STEPS[0], **offline},
            {"kind": "reward_model", "name": "reward", "steps": STEPS[1], **offline},
            {"kind": "rl", "steps": STEPS[2]},
        ],
        algorithm={
            "advantage": {"kind": "gae"},
            "loss": {"kind": "ppo"},
            "kl": {"place": "reward", "coefficient": 0.1, "target": 1.0},
        },
        learner={"minibatches": 2},
        checkpoint={"every": 1},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return small_model(tmp_path_factory.mktemp("model"))


def pairs(step):
    """Completions of which the preferred ones end with the token 7, scored at one more token."""
    rng = np.random.default_rng((5, step))
    samples = []
    for group in range(4):
        for preferred in (True, False):
            ids = [*rng.integers(8, WORDS, 6).tolist(), 7 if preferred else 9, 3]
            zeros = np.zeros(len(ids), dtype=np.float32)
            none = np.full(len(ids), -1, dtype=np.int32)
            samples.append(
                Sample(
                    id=f"{group}.{int(not preferred)}",
                    trajectory_id=f"{group}.{int(not preferred)}",
                    group=group,
                    token_ids_T=np.array(ids, dtype=np.int32),
                    mask_T=np.arange(len(ids)) == len(ids) - 1,
                    logprobs_T=zeros,
                    rewards_T=zeros,
                    turns_T=none,
                    versions_T=none,
                    preferred=preferred,
                )
            )
    return Batch(step, Objective.SCORES, tuple(samples))


class GivenBatches:
    """The same batch of each step in every run; episodes, too, which engines would play again."""

    def get_batch(self, step, stage):
        if stage.objective is Objective.SCORES:
            return pairs(step)
        batch = small_batch(step, objective=stage.objective, seed=stage.index)
        rewarded = [
            replace(each, rewards_T=np.where(np.arange(len(each)) == len(each) - 1, place % 2, 0.0))
            for place, each in enumerate(batch.samples)
        ]
        return replace(batch, samples=tuple(rewarded))

    def tokens(self, step, stage, places):
        raise AssertionError("the batches have their tokens")

    def weights_synced(self, version):
        pass

    def evaluate(self, step):
        return {}


class NoEngines:
    def sync_weights(self, version, batch=None):
        return {}

    def sleep_engines(self):
        pass

    def wake_engines(self):
        pass

    def close(self):
        pass


@dataclass
class Checkpoints:
    """A recorder that keeps the checkpoint after each step, where it has a folder."""

    learner: Learner
    path: Path | None

    def record(self, step, metrics):
        pass

    def record_advantages(self, step, batch):
        pass

    def checkpoint(self, step, stage):
        if self.path is not None:
            self.learner.save(self.path / f"{step}").result()
            Position(step, stage).write(self.path / f"{step}")

    def settle(self):
        pass

    def export_reward_model(self, name, note):
        pass

    def export(self, step):
        pass


def run(config, model, *, keep=None, resume=None):
    """Run to the end, from a checkpoint if there is one; return the learner, of a process of its own."""
    learner = Learner(model, config.learner_settings, "cpu")
    plan = plan_of(config)
    position = restored(learner, resume) if resume else None
    loop = TrainingLoop(
        settings=config.loop_settings,
        plan=plan,
        batches=GivenBatches(),
        learner=learner,
        weight_sync=NoEngines(),
        recorder=Checkpoints(learner, keep),
    )
    loop.run(position.step if position else 0, position.stage if position else None)
    return learner


def state(learner):
    """Digest of the weights, and the coefficient of the adaptive KL penalty."""
    found = hashlib.sha256()
    for name, weight in learner.named_weights():
        found.update(name.encode() + weight.detach().numpy().tobytes())
    return found.hexdigest(), learner.kl_coefficient


@pytest.fixture(scope="module")
def uninterrupted(config, folder, tmp_path_factory):
    checkpoints = tmp_path_factory.mktemp("checkpoints")
    return state(run(config, folder, keep=checkpoints)), checkpoints


@pytest.mark.parametrize("step", range(1, sum(STEPS) + 1))
def test_a_run_that_was_killed_after_a_step_ends_with_the_same_weights(config, folder, uninterrupted, step):
    """In the middle of each stage, and between two: the checkpoint is all that a killed run leaves."""
    expected, checkpoints = uninterrupted
    assert state(run(config, folder, resume=checkpoints / f"{step}")) == expected
