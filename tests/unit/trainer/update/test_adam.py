"""Moments that wait or are small, against those that are neither."""

import pytest
import torch
from torch import nn

from tests.fakes.pretended_ranks import one_of
from tests.harness.learning import run_config, small_batch, small_model
from tests.harness.separate_packages import need_torchao
from trainer.config import OptimizerConfig
from trainer.errors import ConfigError
from trainer.update import adam
from trainer.update.adam import Adam, EightBitAdam, WaitingAdam
from trainer.update.learner import Learner
from trainer.update.memory import rank_memory, shape_of
from trainer.update.mesh import Mesh

CONFIG = OptimizerConfig(learning_rate=1e-2)
NUMBERS = (64, 128)


def adam_of(kind, config=CONFIG):
    """An optimizer of two weights that are the same each time."""
    torch.manual_seed(0)
    weights = [nn.Parameter(torch.randn(NUMBERS)), nn.Parameter(torch.randn(7))]
    groups = [
        {"params": [weight], "lr": 1e-2, "base_rate": 1e-2, "weight_decay": decay}
        for weight, decay in zip(weights, (0.1, 0.0), strict=True)
    ]
    return weights, kind(groups, config)


def play(weights, optimizer, steps):
    for step in steps:
        torch.manual_seed(step)
        for weight in weights:
            weight.grad = torch.randn_like(weight) + 0.5
        optimizer.step(0.5)
    return [weight.detach().clone() for weight in weights]


def test_moments_that_wait_are_the_same_to_the_last_bit(monkeypatch):
    monkeypatch.setattr(adam, "SLICE_BYTES", 100)  # several slices
    expected = play(*adam_of(Adam), range(5))
    found = play(*adam_of(WaitingAdam), range(5))
    assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))


@pytest.mark.parametrize("kind", [Adam, WaitingAdam, EightBitAdam])
def test_one_that_was_loaded_goes_on_as_if_it_had_never_stopped(kind):
    if kind is EightBitAdam:
        need_torchao()
    weights, optimizer = adam_of(kind)
    play(weights, optimizer, range(3))
    others, loaded = adam_of(kind)
    with torch.no_grad():
        for weight, other in zip(weights, others, strict=True):
            other.copy_(weight)
            into = loaded.moments(other)
            for name, moment in optimizer.moments(weight).items():
                into[name].copy_(moment)
            loaded.load_moments(other, into)
    loaded.updates = optimizer.updates
    assert loaded.updates == 3
    expected, found = play(weights, optimizer, range(3, 6)), play(others, loaded, range(3, 6))
    exact = kind is not EightBitAdam  # whose scales are found again to rounding
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other, rtol=0 if exact else 1e-6, atol=0)


def test_eight_bits_are_near_to_float32_and_change_no_weight_by_beginning():
    need_torchao()
    weights, optimizer = adam_of(EightBitAdam)
    begun, _ = adam_of(Adam)
    assert all(torch.equal(one, other) for one, other in zip(begun, weights, strict=True))
    found = play(weights, optimizer, range(20))
    expected = play(*adam_of(Adam), range(20))
    moved = (expected[0] - begun[0].detach()).abs().mean()
    assert (found[0] - expected[0]).abs().mean() < 0.05 * moved
    torch.testing.assert_close(found[1], expected[1])  # few numbers stay in float32


def test_eight_bits_without_their_package_say_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torchao.optim", None)
    with pytest.raises(ConfigError, match=r"training-sandbox\[gpu\]"):
        adam_of(EightBitAdam)


def test_eight_bits_take_the_memory_that_is_foreseen(tmp_path):
    need_torchao()
    folder = small_model(tmp_path / "model", hidden=64)
    config = run_config(learner={"optimizer": {"moments": "8bit"}})
    learner = Learner(folder, config.learner_settings, "cpu")
    learner.begin_stage(config.learner.optimizer, 10)
    learner.update(learner.annotate(small_batch()))
    kept = 0
    for state in learner.optimizer.adam.wrapped.state.values():
        for name in adam.MOMENTS:
            moment = state[name]
            parts = (moment.codes, moment.scale) if hasattr(moment, "codes") else (moment,)
            kept += sum(part.nbytes for part in parts)
    expected = rank_memory(shape_of(folder, config.learner_settings), config.learner, Mesh(), half=False)
    assert kept == expected.moments


def test_eight_bits_of_shards_are_saved_and_loaded_as_shards(tmp_path):
    need_torchao()
    folder = small_model(tmp_path / "model", hidden=128)
    settings = {"optimizer": {"moments": "8bit"}, "sharding": "fsdp2", "workers": 2}
    with one_of(2):
        learner = Learner(folder, run_config(learner=settings).learner_settings, "cpu", 0, 2)
        learner.begin_stage(learner.settings.learner.optimizer, 10)
        learner.update(learner.annotate(small_batch()))
        optimizer = learner.optimizer
        states = optimizer.adam.wrapped.state.values()
        assert any(hasattr(state["exp_avg"].to_local(), "codes") for state in states)
        moments = optimizer.moments()
        optimizer.load_moments(moments)
        for name, moment in optimizer.moments().items():
            assert moment.shape == optimizer.parameters[name.partition(".")[2]].shape
            torch.testing.assert_close(moment.to_local(), moments[name].to_local(), rtol=1e-6, atol=0)
