"""Policy losses on ratios worked out by hand."""

import math
from typing import get_args

import pytest
import torch

from tests.harness.loss_inputs import inputs
from trainer.config.algorithm import CispoLoss, GspoLoss, LossConfig, PpoLoss
from trainer.update.objective.policy_losses import POLICY_LOSSES, cispo, gspo, ppo

LOG2 = math.log(2)
# Ratios 2, 2, 1/2, 1/2 with good and bad actions.
NOW = [[-1.0, -1.0, -1.0 - LOG2, -1.0 - LOG2]]
OLD = [[-1.0 - LOG2, -1.0 - LOG2, -1.0, -1.0]]
SIGNS = [[1.0, -1.0, 1.0, -1.0]]


def test_every_configuration_has_a_loss() -> None:
    (variants,) = [union.__args__ for union in LossConfig.__args__ if hasattr(union, "__args__")]
    assert set(POLICY_LOSSES) == {get_args(variant)[0] for variant in variants}


def test_ppo_clips_where_moving_on_would_pay() -> None:
    found = ppo(inputs(NOW, old=OLD, advantages=SIGNS), PpoLoss(clip_low=0.2, clip_high=0.3))
    torch.testing.assert_close(found.losses_BT, torch.tensor([[-1.3, 2.0, -0.5, 0.8]]))
    assert found.clipped_BT.tolist() == [[True, False, False, True]]


def test_clipped_tokens_have_no_gradient() -> None:
    now = torch.tensor(NOW, requires_grad=True)
    ppo(
        inputs(now, old=OLD, advantages=SIGNS), PpoLoss(clip_low=0.2, clip_high=0.3)
    ).losses_BT.sum().backward()
    # The gradient of -r A by log p is -r A.
    torch.testing.assert_close(now.grad, torch.tensor([[0.0, 2.0, -0.5, 0.0]]))


def test_the_dual_clip_bounds_the_loss_of_bad_actions() -> None:
    found = ppo(inputs(NOW, old=OLD, advantages=SIGNS), PpoLoss(clip_low=0.2, clip_high=0.3, dual_clip=1.5))
    torch.testing.assert_close(found.losses_BT, torch.tensor([[-1.3, 1.5, -0.5, 0.8]]))
    assert found.clipped_BT.tolist() == [[True, True, False, True]]


def test_gspo_takes_the_geometric_mean_of_the_sampled_tokens() -> None:
    # Log-ratios 2 log 2 and 0 over two sampled tokens: ratio 2, whatever the third one is.
    rows = inputs([[2 * LOG2, 0.0, 5.0]], old=[[0.0, 0.0, 0.0]], advantages=[[-1.0] * 3], mask=[[1, 1, 0]])
    found = gspo(rows.cleaned(), GspoLoss(clip_low=0.1, clip_high=0.1))
    torch.testing.assert_close(found.losses_BT[0, :2], torch.tensor([2.0, 2.0]))


def test_gspo_clips_whole_sequences() -> None:
    rows = inputs([[LOG2, LOG2], [0.0, 0.1]], old=[[0.0, 0.0], [0.0, 0.0]])
    found = gspo(rows, GspoLoss(clip_low=0.1, clip_high=0.1))
    assert found.clipped_BT.tolist() == [[True, True], [False, False]]
    torch.testing.assert_close(found.losses_BT[0], torch.tensor([-1.1, -1.1]))


def test_gspo_gives_each_token_its_own_advantage() -> None:
    now = torch.tensor([[LOG2, LOG2]], requires_grad=True)
    rows = inputs(now, old=[[0.0, 0.0]], advantages=[[-1.0, -3.0]])
    gspo(rows, GspoLoss(clip_low=0.1, clip_high=0.1)).losses_BT.sum().backward()
    torch.testing.assert_close(now.grad, torch.tensor([[2.0, 6.0]]))


def test_gspo_keeps_packed_sequences_apart() -> None:
    config = GspoLoss(clip_low=0.5, clip_high=3.0)
    padded = gspo(inputs([[0.3, 0.1], [0.7, 0.2]], old=[[0.0, 0.0], [0.0, 0.0]]), config)
    packed = gspo(
        inputs([[0.3, 0.1, 0.7, 0.2]], old=[[0.0] * 4], sequences=[[0, 0, 1, 1]]),
        config,
    )
    torch.testing.assert_close(packed.losses_BT[0], padded.losses_BT.flatten())


def test_cispo_bounds_the_weight_and_keeps_the_gradient() -> None:
    now = torch.tensor(NOW, requires_grad=True)
    found = cispo(inputs(now, old=OLD, advantages=SIGNS), CispoLoss(clip_low=0.25, clip_high=0.5))
    found.losses_BT.sum().backward()
    # Weights 1.5, 1.5, 0.75, 0.75; the gradient of -w A log p is -w A.
    torch.testing.assert_close(now.grad, torch.tensor([[-1.5, 1.5, -0.75, 0.75]]))
    torch.testing.assert_close(found.losses_BT[0, 0], torch.tensor(1.5))
    assert found.clipped_BT.all()


def test_cispo_without_a_lower_bound_leaves_small_weights() -> None:
    now = torch.tensor(NOW, requires_grad=True)
    cispo(inputs(now, old=OLD, advantages=SIGNS), CispoLoss(clip_high=0.5)).losses_BT.sum().backward()
    torch.testing.assert_close(now.grad, torch.tensor([[-1.5, 1.5, -0.5, 0.5]]))


@pytest.mark.parametrize("config", [PpoLoss(), PpoLoss(dual_clip=3.0), GspoLoss(), CispoLoss()], ids=repr)
@pytest.mark.parametrize("gap", [500.0, -500.0, float("inf")])
def test_policies_far_apart_give_finite_losses_and_gradients(config: LossConfig, gap: float) -> None:
    now = torch.tensor([[-0.5, -0.5]], requires_grad=True)
    rows = inputs(now, old=[[-0.5 - gap, -0.5 - gap]], advantages=[[1.0, -1.0]])
    losses = POLICY_LOSSES[type(config)](rows, config).losses_BT
    losses.sum().backward()
    assert losses.isfinite().all()
    assert now.grad.isfinite().all()
