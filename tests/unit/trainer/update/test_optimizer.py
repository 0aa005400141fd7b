import math

import pytest
import torch
from torch import nn

from trainer.config import OptimizerConfig
from trainer.update.optimizer import Optimizer, rate_factor


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.value_head = nn.Linear(2, 1)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [0.5, 1.0, 1.0, 1.0, 1.0]),
        ("linear", [0.5, 1.0, 1.0, 0.55, 0.1]),
        ("cosine", [0.5, 1.0, 1.0, 0.55, 0.1]),
    ],
)
def test_the_rate_warms_up_and_falls(schedule, expected):
    config = OptimizerConfig(schedule=schedule, warmup_steps=2, final_share=0.1)
    assert [rate_factor(config, step, 12) for step in (0, 1, 2, 7, 12)] == pytest.approx(expected)


def test_the_rate_stays_at_its_least_beyond_the_end():
    assert rate_factor(OptimizerConfig(schedule="linear", final_share=0.2), 50, 10) == pytest.approx(0.2)


def toy_optimizer(gradient=1.0, value_rate=None, **settings):
    toy = Toy()
    with torch.no_grad():
        for parameter in toy.parameters():
            parameter.fill_(1.0)
            parameter.grad = torch.full_like(parameter, gradient)
    return toy, Optimizer(toy, OptimizerConfig(learning_rate=0.1, **settings), 10, value_rate)


def test_gradients_are_clipped_together_and_their_own_norm_is_told():
    toy, optimizer = toy_optimizer(gradient=2.0, clip_norm=0.3)
    assert optimizer.step() == pytest.approx(2.0 * math.sqrt(9))
    total = math.sqrt(sum(float(parameter.grad.square().sum()) for parameter in toy.parameters()))
    assert total == pytest.approx(0.3, rel=1e-4)


def test_zero_does_not_clip():
    toy, optimizer = toy_optimizer(gradient=2.0, clip_norm=0.0)
    optimizer.step()
    assert float(toy.layer.weight.grad[0, 0]) == 2.0


def test_the_critic_may_have_a_rate_of_its_own():
    toy, optimizer = toy_optimizer(value_rate=0.02)
    optimizer.step()
    assert toy.layer.weight.detach()[0, 0].item() == pytest.approx(0.9, abs=1e-5)
    assert toy.value_head.weight.detach()[0, 0].item() == pytest.approx(0.98, abs=1e-5)


def test_vectors_do_not_decay():
    toy, optimizer = toy_optimizer(gradient=0.0, weight_decay=0.5)
    optimizer.step()
    assert toy.layer.weight.detach()[0, 0].item() == pytest.approx(0.95)
    assert toy.layer.bias.detach()[0].item() == 1.0


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_changes_nothing(wrong):
    toy, optimizer = toy_optimizer(gradient=wrong)
    assert not math.isfinite(optimizer.step())
    assert all(bool((parameter == 1.0).all()) for parameter in toy.parameters())
    assert optimizer.updates == 0
